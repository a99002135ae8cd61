"""Where jobs run: a small file each, and a row in rows.py. Importing one imports no other."""
