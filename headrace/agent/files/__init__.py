"""Follows files that grow and are rotated, without a lost or repeated line."""
