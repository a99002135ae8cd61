"""The verbs that the installed command does not have."""

CLONE_ONLY = ("check",)
"""Verbs that read what only the repository has, such as its tests."""
