"""The requests that a server answered, beside what its GPUs did."""
