"""Names for the pauses of the host: Python stacks, garbage collections, compilations."""
