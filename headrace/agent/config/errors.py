"""What is wrong with a configuration file, in one sentence with the line."""

from __future__ import annotations


class ConfigurationError(Exception):
    """The configuration cannot be used. The message is one sentence."""


def line_of_key(text: str, key: str, nth: int = 0) -> int:
    """Return the line of the nth place of a JSON key in a text; the first line when it is not found."""
    at = -1
    for _ in range(nth + 1):
        following = text.find(f'"{key}"', at + 1)
        if following < 0:
            break
        at = following
    return text.count("\n", 0, max(at, 0)) + 1
