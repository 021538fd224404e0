"""Reserves tags whose keys begin with `aws:` for AWS's own services, such as CloudFormation: users cannot set them.

CloudFormation tags each resource that it makes with the stack and the logical id, by the same operations that users
call. It names these tags here during the call, so that the services, which refuse such keys, accept them. Source:
CloudFormation's user guide, "Resource tag" (documented); each service has its own error for users.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager

PREFIX = "aws:"


class _OfThread(threading.local):
    keys: frozenset[str] = frozenset()


_NOW = _OfThread()


@contextmanager
def may_set(keys: Iterable[str]) -> Generator[None]:
    """Let this thread set tags with these keys inside the `with` block."""
    before, _NOW.keys = _NOW.keys, frozenset(keys)
    try:
        yield
    finally:
        _NOW.keys = before


def are_set_now(key: str) -> bool:
    """Whether the call that runs on this thread comes from an AWS service that may set this key."""
    return key in _NOW.keys


def is_system(key: str) -> bool:
    """Whether a tag's key is reserved for AWS; such tags do not count towards a resource's quota."""
    return key.lower().startswith(PREFIX)


def is_refused(key: str) -> bool:
    """Whether the caller is refused to set or remove a tag with this key."""
    return is_system(key) and not are_set_now(key)


def count_tags(keys: Iterable[str]) -> int:
    """Return how many of the different keys count towards a resource's quota of tags."""
    return sum(not is_system(key) for key in set(keys))
