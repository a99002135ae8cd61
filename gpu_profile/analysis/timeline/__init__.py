"""A run as a Perfetto trace."""
