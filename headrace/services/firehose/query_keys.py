"""Finds the keys in the result of a JQ query from its text, if the query is a single object between braces.

Firehose refuses a query with keys that the prefix does not use (observed by the CDK's authors: the sentence stands in
aws-cdk's source, packages/aws-cdk-lib/aws-kinesisfirehose/lib/metadata-extraction-processor.ts, 2025). How it finds
the keys is unknown; headrace accepts a query whose keys are only known by running it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_KEY = re.compile(r'\s*(?:\$?([A-Za-z_][A-Za-z0-9_]*)|"([^"\\]*)")\s*(?::|$)')
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def find_keys(query: str) -> set[str] | None:
    """Return the keys of a query that is one object; None for any other query, or if a key is computed."""
    text = query.strip()
    if not text.startswith("{") or "#" in text:
        return None
    entries = list(_split_entries(text))
    keys: set[str] = set()
    for entry in entries:
        match = _KEY.match(entry)
        if match is None:
            return None
        keys.add(match.group(1) or match.group(2))
    return keys or None


def _split_entries(text: str) -> Iterator[str]:
    """Yield the object's entries, which outermost commas separate. If the braces end early, yield an invalid entry."""
    closing: list[str] = []
    at = begun = 0
    while at < len(text):
        sign = text[at]
        if sign == '"':
            whole = _TEXT.match(text, at)
            if whole is None or "\\(" in whole.group():
                yield "("
                return
            at = whole.end()
            continue
        if sign in _CLOSING:
            closing.append(_CLOSING[sign])
            begun = at + 1 if len(closing) == 1 else begun
        elif closing and sign == closing[-1]:
            closing.pop()
            if not closing:
                yield text[begun:at]
                if text[at + 1 :].strip():
                    yield "("
                return
        elif sign == "," and len(closing) == 1:
            yield text[begun:at]
            begun = at + 1
        at += 1
    yield "("
