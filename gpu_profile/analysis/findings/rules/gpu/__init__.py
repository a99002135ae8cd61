"""Causes on the GPU and in its recording."""
