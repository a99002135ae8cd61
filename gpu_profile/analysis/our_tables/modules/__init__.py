"""Tables of modules: their GPU time, and their FLOPs."""
