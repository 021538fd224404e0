"""Shards as a set: splitting and merging them, planning equal ranges, growth with traffic, and retention."""
