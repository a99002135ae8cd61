"""The table of verbs and flags, and what verbs share."""
