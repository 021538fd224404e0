"""The commands that CONTRIBUTING.md lists, and their helpers."""
