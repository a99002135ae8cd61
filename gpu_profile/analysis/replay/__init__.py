"""Replay the recorded dependencies of a run, as they were or with a change."""
