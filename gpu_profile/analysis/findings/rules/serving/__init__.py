"""Findings about the iterations of an inference engine."""
