"""A run: submit, follow, fetch, validate, record."""
