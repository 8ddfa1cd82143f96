"""The prompts as data: one YAML file per agent, read by `triplewise.nodes.prompting`."""
