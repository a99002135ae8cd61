"""Marks of steps, phases and modules in a PyTorch program. Python 3.8, stdlib only."""
