"""The table of verbs and flags, and functions that several verbs use."""
