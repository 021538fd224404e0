"""Implements the ports in `headrace.core.ports`, and permissions' questions, by calls of this cloud's other services.

Thread-safe.
"""
