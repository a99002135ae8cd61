"""stats, diagnose, html, timeline, compare, scrub, trace-file."""
