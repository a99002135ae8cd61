"""Read reports and compute tables from them. Importing this package alone imports nothing else."""
