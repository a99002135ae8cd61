"""The places where jobs run: one file each, and one row in table.py. No launcher imports
another."""
