"""Asynchronous invocations: events are queued, retried, and finally sent to a destination."""
