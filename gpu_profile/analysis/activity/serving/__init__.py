"""Iterations of inference engines: found by marks or by the copies of tokens, and their parts."""
