"""The phases of the agent, one module each, with their state, settings, models and prompts."""
