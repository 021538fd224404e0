"""What a stream takes as a record, as a producer checks it before the record is taken. Standard library only."""

from __future__ import annotations

import re
from typing import Any

from headrace.client.hash_keys import HASH_KEYS
from headrace.client.receipts import size_of

MOST_KEY_CHARS = 256
MOST_RECORD_BYTES = 10 << 20
# Half of a character of UTF-16, as in an argument that is not UTF-8: no request can carry it.
_SURROGATE = re.compile("[\ud800-\udfff]")


def bytes_of(data: Any) -> bytes:
    """Return a record's data: bytes, what has a buffer, or text, which becomes UTF-8. Raises TypeError, ValueError."""
    if type(data) is bytes:
        return data
    if isinstance(data, str):
        if _SURROGATE.search(data):
            raise ValueError(f"a record's text is Unicode text, not {data[:40]!r}")
        return data.encode()
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise TypeError(f"a record's data is bytes or text, not {type(data).__name__}") from None


def hash_key_text(explicit: int | str | None) -> str | None:
    """Return an explicit hash key in decimal digits. Raises ValueError."""
    if explicit is None:
        return None
    try:
        return str(int(explicit))
    except (TypeError, ValueError):
        raise ValueError(_no_hash_key(explicit)) from None


def check_record(data: bytes, key: Any, explicit: str | None = None) -> None:
    """Raise ValueError, or TypeError for a key that is not text, for what no stream takes."""
    if key is not None:
        if not isinstance(key, str):
            raise TypeError(f"a partition key is text, not {type(key).__name__}")
        if not 0 < len(key) <= MOST_KEY_CHARS:
            raise ValueError(
                f"a partition key has 1 to {MOST_KEY_CHARS} characters, not {len(key)}"
            )
        if not key.isascii() and _SURROGATE.search(key):
            raise ValueError(f"a partition key is Unicode text, not {key!r}")
    if size_of(data, key) > MOST_RECORD_BYTES:
        raise ValueError(f"a record has at most {MOST_RECORD_BYTES} bytes with its key")
    if explicit is not None and not 0 <= int(explicit) < HASH_KEYS:
        raise ValueError(_no_hash_key(explicit))


def are_plain(rows: list[tuple[Any, Any]]) -> bool:
    """Whether all records are bytes with a key in ASCII that any stream takes. False says nothing."""
    if not rows:
        return True
    data, keys = zip(*rows, strict=True)
    if set(map(type, data)) != {bytes} or set(map(type, keys)) != {str}:
        return False
    longest_bytes = max(map(len, data))
    return (
        "".join(keys).isascii()
        and min(map(len, keys)) > 0
        and max(map(len, keys)) <= MOST_KEY_CHARS
        and longest_bytes <= MOST_RECORD_BYTES - MOST_KEY_CHARS
    )


def _no_hash_key(explicit: int | str) -> str:
    return f"an explicit hash key is between 0 and 2**128 - 1, not {explicit}"
