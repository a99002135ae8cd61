"""Verbs for images: render, build, lock, login, push, pull."""
