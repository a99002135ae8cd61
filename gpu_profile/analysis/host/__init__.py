"""What the host did: sampled stacks, waits, blocking calls by their authors' names."""
