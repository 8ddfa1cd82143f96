"""Triples from documents: a model's reply read, and aligned to a KG (SymAgent 4.2.1, figure 6)."""
