"""Implements ports by calls of this cloud's other services: each a thin translation from `headrace.core.ports`.

Thread-safe.
"""
