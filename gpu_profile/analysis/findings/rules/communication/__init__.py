"""Causes between the ranks."""
