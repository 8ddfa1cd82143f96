"""Small graphs, and questions that somebody asked of each: what the parser is trained on besides benchmarks."""
