"""From a question to symbolic rules: seed questions, closed paths, the neighbourhood, cues (SymAgent 4.1)."""
