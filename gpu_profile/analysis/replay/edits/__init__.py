"""Changes of a program that take one kind of cause away."""
