"""Small benchmarks of speed: times that a person feels, and ratios. `python -m triplewise.evals.bench`."""
