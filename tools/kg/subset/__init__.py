"""Parts of graphs: extracted from dumps larger than memory (ODA, 3.2), and made incomplete (SymAgent)."""
