"""Reads configuration files of other agents, unchanged; what is not built is refused with its line."""
