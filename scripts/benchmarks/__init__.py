"""Benchmarks: `scripts/bench NAME`."""
