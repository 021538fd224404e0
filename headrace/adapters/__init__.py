"""Implements the ports in `headrace.core.ports` by calls of this cloud's other services.

Thread-safe.
"""
