"""A copy of a report that may leave the machine."""
