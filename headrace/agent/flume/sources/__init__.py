"""Flume's sources, each a class with `run` for a thread of its own."""
