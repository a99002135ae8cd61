"""The verb for pull requests: ci."""
