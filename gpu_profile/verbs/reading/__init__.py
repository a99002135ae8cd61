"""Verbs that read reports: stats, diagnose, html, timeline, compare, scrub, trace-file."""
