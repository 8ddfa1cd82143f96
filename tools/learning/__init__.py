"""Learning from one's own trajectories (SymAgent 4.3): what they are, their merging, training on them."""
