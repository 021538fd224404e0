"""Asynchronous invocations: events that are queued, tried again, and sent to a destination in the end."""
