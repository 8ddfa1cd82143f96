"""Self-learning (SymAgent 4.3), one module a phase: explore, refine, merge, update, validate."""
