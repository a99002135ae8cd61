"""Verbs for jobs: profile, fetch, reports, test, run, exec, status, logs, stop."""
