"""nsys' exports as numpy columns: SQLite, gzip, Parquet, URL."""
