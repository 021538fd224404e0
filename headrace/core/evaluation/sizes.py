"""The sizes of values before they are made, and of values whose text would not fit into memory."""

from __future__ import annotations

from typing import Any, cast

from headrace.core.evaluation.errors import TooMuch

# What an empty list or object takes, and a member of one beside its text.
_CONTAINER_BYTES = 96
_MEMBER_BYTES = 40


def text_size(text: str) -> int:
    """Return the bytes that a text takes in memory, at most."""
    return len(text) if text.isascii() else 4 * len(text)


def bound_parsed_bytes(text: str) -> int:
    """Return the bytes that a JSON text takes when it is parsed, at most; `[[],[],...]` grows thirty-fold."""
    containers = text.count("[") + text.count("{")
    return text_size(text) + _CONTAINER_BYTES * containers + _MEMBER_BYTES * text.count(",")


def check_json_size(value: Any, most: int) -> int:
    """Return how many characters a value has as compact JSON, about; raises TooMuch above `most`.

    The work is bounded by `most`: a list that holds another one twice, which does so too, and so on, is small in memory
    and endless as text.
    """
    size, pending = 0, [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            size += len(part) + 2
        elif isinstance(part, dict):
            members = cast("dict[str, Any]", part)
            size += 2 + sum(map(len, members)) + 4 * len(members)
            pending += members.values()
        elif isinstance(part, list):
            items = cast("list[Any]", part)
            size += 2 + len(items)
            pending += items
        else:
            size += 4 if part is None or isinstance(part, bool) else len(str(part))
        if size > most:
            raise TooMuch(f"The value has more than {most} characters")
    return size
