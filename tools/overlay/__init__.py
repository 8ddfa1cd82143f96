"""Facts read from documents: an overlay with provenance, never written to the KG (SymAgent 4.2.1)."""
