"""Verbs that read reports: stats, diagnose, what-if, html, timeline, compare, scrub, trace-file."""
