"""nsys' options, from its own help text."""
