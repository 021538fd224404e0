"""The benchmarks, run by `scripts/bench NAME`."""
