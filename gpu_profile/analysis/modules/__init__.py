"""Which module of the model each GPU operation belongs to, by the marks of `--annotate`."""
