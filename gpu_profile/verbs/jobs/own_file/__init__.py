"""profile --manifest: what runs is said by a file of the user's own."""
