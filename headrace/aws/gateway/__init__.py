"""Decides which service answers a request, and who may ask."""
