"""Compare runs: whether a new one is slower than a base by more than noise."""
