"""Launcher `slurm`: jobs of a Slurm cluster."""
