"""render, build, lock, login, push, pull."""
