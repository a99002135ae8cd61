"""nsys' command lines, made from its own help text."""
