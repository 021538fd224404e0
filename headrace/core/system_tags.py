"""Says who may set tags whose keys begin with `aws:`: AWS's own services, such as CloudFormation, and no user.

CloudFormation puts the stack and the logical id on each resource that it makes, by the same operations by which users
set tags. It names its tags here while it calls, so that the services' refusal of such keys lets these pass.
Source: CloudFormation's user guide, "Resource tag" (documented); each service refuses users in words of its own.
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
    """Let this thread's calls meanwhile set tags with these keys."""
    before, _NOW.keys = _NOW.keys, frozenset(keys)
    try:
        yield
    finally:
        _NOW.keys = before


def are_set_now(key: str) -> bool:
    """Whether a service of AWS sets a tag with this key by the call under way on this thread."""
    return key in _NOW.keys


def is_system(key: str) -> bool:
    """Whether a tag's key is reserved for AWS; such tags do not count towards a resource's quota."""
    return key.lower().startswith(PREFIX)


def is_refused(key: str) -> bool:
    """Whether the caller may not set or remove a tag with this key."""
    return is_system(key) and not are_set_now(key)


def counted(keys: Iterable[str]) -> int:
    """Return how many different keys count towards a resource's quota of tags."""
    return sum(not is_system(key) for key in set(keys))
