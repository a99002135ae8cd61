"""Findings: what costs time in a run, and what to try."""
