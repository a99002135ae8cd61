"""Read nsys' exports (SQLite, gzip, Parquet, URL) as numpy columns."""
