"""All reports of a run: ranks, clocks, reading in parallel."""
