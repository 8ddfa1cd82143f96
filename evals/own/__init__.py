"""Small graphs with what somebody asked of each: training questions of the parser besides benchmarks."""
