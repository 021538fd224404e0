"""The rules of tags, the same for streams and consumers."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import TAGS_PER_STREAM


def check_tags(present: Mapping[str, str], more: Mapping[str, str]) -> None:
    """Raise InvalidArgumentException when a resource would have too many tags, or reserved ones."""
    if any(key.lower().startswith("aws:") for key in more):
        raise invalid_argument("Tag keys starting with aws: are reserved for system use.")
    if len({*present, *more}) > TAGS_PER_STREAM:
        raise invalid_argument(
            f"Failed to add tags to stream because it would exceed the maximum of {TAGS_PER_STREAM} tags."
        )
