"""SSM's parameters."""
