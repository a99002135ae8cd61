"""The user's own manifest: read it, edit its pods, show the difference. Nothing is run here."""
