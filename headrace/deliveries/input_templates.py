"""Fills the input templates of EventBridge's rules and pipes, each placeholder once.

A template is JSON or free text. In JSON, a value takes the place of a placeholder as JSON, and within a string's quotes
as text. In free text, strings are inserted bare. Observed for rules (LocalStack's recordings from AWS of templates
within quotes); documented for pipes: eb-pipes-input-transformation.html of
https://docs.aws.amazon.com/eventbridge/latest/userguide/.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

# A placeholder without quotes is replaced by this, to see whether a template is JSON.
_ANY_VALUE = "0"
Piece = tuple[str, str, bool]


def fill(
    template: str,
    is_placeholder: Callable[[str], bool],
    value_of: Callable[[str], Any],
    *,
    in_quotes: Callable[[Any], str],
    count: Callable[[int], None],
) -> str:
    """Return a template with each `<name>` replaced, once.

    Args:
        template: the text.
        is_placeholder: whether a name between `<` and `>` is a placeholder; all else stays as it is.
        value_of: the value of a placeholder; an empty string for none.
        in_quotes: the text of a value that is not a string, within a string's quotes.
        count: is told the length of each text that takes a placeholder's place; it raises what a caller expects for
            too much.
    """
    pieces = list(_pieces(template, is_placeholder))
    is_text = not _is_json(pieces)
    texts: list[str] = []
    for text, name, is_quoted in pieces:
        texts.append(text)
        if name:
            texts.append(_text_of(value_of(name), is_text, is_quoted, in_quotes))
            count(len(texts[-1]))
    return "".join(texts)


def compact(value: Any) -> str:
    """Return a value as JSON without spaces, as AWS writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _text_of(value: Any, is_text: bool, is_quoted: bool, in_quotes: Callable[[Any], str]) -> str:
    if isinstance(value, str):
        if is_text and not is_quoted:
            return value
        shown = json.dumps(value, ensure_ascii=False)
        return shown[1:-1] if is_quoted else shown
    return in_quotes(value) if is_quoted else compact(value)


def _pieces(template: str, is_placeholder: Callable[[str], bool]) -> Iterator[Piece]:
    """Yield (text, name of the placeholder after it, whether that is within quotes); the last name is empty."""
    at = start = 0
    is_quoted = False
    while at < len(template):
        letter = template[at]
        if letter == "\\":
            at += 1
        elif letter == '"':
            is_quoted = not is_quoted
        elif letter == "<" and (end := template.find(">", at)) > 0:
            name = template[at + 1 : end]
            if is_placeholder(name):
                yield template[start:at], name, is_quoted
                at, start = end, end + 1
        at += 1
    yield template[start:], "", False


def _is_json(pieces: list[Piece]) -> bool:
    """Whether a template is JSON once its placeholders are, several texts after each other included."""
    text = "".join(
        f"{before}{_ANY_VALUE if name and not is_quoted else ''}"
        for before, name, is_quoted in pieces
    )
    decoder = json.JSONDecoder(strict=False)
    at = 0
    try:
        while text[at:].strip():
            at += len(text[at:]) - len(text[at:].lstrip())
            _, at = decoder.raw_decode(text, at)
    except (ValueError, RecursionError):
        return False
    return True
