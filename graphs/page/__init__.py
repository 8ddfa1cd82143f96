"""The page of a run or of an evaluation: one HTML file that needs nothing else."""
