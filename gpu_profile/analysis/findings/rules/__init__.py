"""The rules of `invoke diagnose`, a file for each kind of finding."""
