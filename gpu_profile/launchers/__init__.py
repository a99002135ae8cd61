"""The places where jobs run: one file and one row in table.py each. None imports another."""
