"""The compiled graphs that LangGraph Studio and LangGraph Server serve (`langgraph.json`)."""

from triplewise.graphs.build import build_graph

agent = build_graph("agent")
agent_sparql = build_graph("agent-sparql")
queryagent = build_graph("queryagent")
queryagent_faithful = build_graph("queryagent-faithful")
oda = build_graph("oda")
symagent = build_graph("symagent")
agentbench = build_graph("agentbench")
agentbench_plain = build_graph("agentbench-plain")
sql = build_graph("sql")
sql_paper = build_graph("sql-paper")
