"""The rules for tags, which are the same for streams, consumers, queues and channels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import regex

from headrace.core.system_tags import count_tags, is_refused
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import TAGS_PER_STREAM

# AWS's message does not list the colon, but AWS accepts it; the only white space that AWS accepts is the space. The
# message lists the percent sign as valid, but a second check refuses it. Source: kinesalite (observed), API_Tag
# (documented).
_FORBIDDEN = regex.compile(r"[^\p{L}\p{Zs}\p{N}_.:/=+\-@%]")


def check_keys(keys: Iterable[str]) -> None:
    """Raise InvalidArgumentException for tag keys that are reserved for AWS: users cannot set or remove them."""
    if any(map(is_refused, keys)):
        raise invalid_argument("Tag keys starting with aws: are reserved for system use.")


def check_tags(
    present: Mapping[str, str], more: Mapping[str, str], name: str, account: str, kind: str
) -> None:
    """Raise InvalidArgumentException when a resource would have too many tags, or tags that are not valid.

    `kind` is `stream`, `consumer`, `queue` or `channel`. Source of the messages: kinesalite (observed).
    """
    check_keys(more)
    if any(_FORBIDDEN.search(text) for tag in more.items() for text in tag):
        raise invalid_argument(
            "Some tags contain invalid characters. Valid characters: Unicode letters, digits, white space,"
            " _ . / = + - % @."
        )
    if any("%" in text for tag in more.items() for text in tag):
        raise invalid_argument(
            f"Failed to add tags to {kind} {name} under account {account} because some tags contained illegal"
            " characters. The allowed characters are Unicode letters, white-spaces, '_',',','/','=','+','-','@'."
        )
    if count_tags({*present, *more}) > TAGS_PER_STREAM:
        raise invalid_argument(
            f"Failed to add tags to {kind} {name} under account {account} because a given {kind} cannot have"
            f" more than {TAGS_PER_STREAM} tags associated with it."
        )
