"""profile, test, run, exec, status, logs, stop, fetch."""
