"""The container engine: is it installed, its containers, its API."""
