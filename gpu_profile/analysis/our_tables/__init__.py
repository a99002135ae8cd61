"""The tables that nsys does not have."""
