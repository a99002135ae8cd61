"""Checks of machines and clusters, each with what to do if it fails."""
