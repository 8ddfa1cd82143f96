"""The environment of the agent: knowledge graphs, PyQL, actions, ranking, linking, rules.

Knows nothing of LangGraph or prompts, and is useful alone.
"""
