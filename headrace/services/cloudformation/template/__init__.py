"""Reads templates: parameters, functions, references, rules."""
