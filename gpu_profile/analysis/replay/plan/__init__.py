"""The plan: what to do first, and what is worth doing after that."""
