"""Facts read from documents: an overlay beside the KG, with provenance, never inside it (SymAgent 4.2.1)."""
