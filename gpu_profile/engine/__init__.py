"""Docker Engine: is it here, its containers, its API."""
