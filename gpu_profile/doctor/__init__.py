"""What machines and clusters can do, and what to do about the rest."""
