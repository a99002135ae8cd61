"""Is the new run slower, and is that more than noise."""
