"""Causes that keep the host from issuing work in time."""
