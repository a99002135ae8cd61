"""What the parts declare and share: frozen values that import next to nothing."""
