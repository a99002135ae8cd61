"""Tables of our own, which nsys does not have."""
