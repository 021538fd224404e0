"""Runs invocations: finds the version, enforces the concurrency limits, uses a warm process, returns the response."""
