"""The answer to a pull request: two figures in pairs of runs, and what changed."""
