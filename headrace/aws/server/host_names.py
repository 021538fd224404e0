"""Checks whether a text has the form of a Host header's value: a name or an address, and a port."""

from __future__ import annotations

import re

# A name or an address (RFC 3986's host, without the comma that a list of two would have), and a port.
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._~%!$&'()*+;=-]*)(?::[0-9]{0,5})?")
_MOST_KEPT = 1000
# A cache of values that have this form; callers for which speed matters look here first.
WELL_FORMED: set[str | None] = set()


def is_host(value: str) -> bool:
    """Whether `value` is a valid Host header; an empty one is."""
    if value in WELL_FORMED:
        return True
    if _HOST.fullmatch(value) is None:
        return False
    if len(WELL_FORMED) < _MOST_KEPT:
        WELL_FORMED.add(value)
    return True
