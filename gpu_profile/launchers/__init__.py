"""The places where jobs run: a file here and a row in declared/launchers.py each.

None imports another.
"""
