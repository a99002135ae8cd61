"""What the host did: sampled stacks, waits, and blocking calls named by Python code."""
