"""nsys' export as an SQLite file: its header, its pages, and what sqlite3 reads of it."""
