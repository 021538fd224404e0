"""Minor versions of Spark and Python as pairs of numbers, which can be compared."""

from __future__ import annotations

Minor = tuple[int, int]


def minor_of(version: str) -> Minor:
    """Return `(3, 5)` of `3.5.6`."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def format_minor(minor: Minor) -> str:
    """Return `3.11` of `(3, 11)`."""
    return f"{minor[0]}.{minor[1]}"
