"""Reads the manifests that Firehose writes below `errors/manifests/` for objects that Redshift did not load."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

# AWS's manifest has no error code; Firehose's log has it.
NOT_LOADED = "Redshift.NotLoaded"
_BLANKS = " \t\r\n,"
_decoder = json.JSONDecoder()


def urls_of(body: bytes) -> list[str] | None:
    """Return the objects that a manifest of COPY names; None when the document is not a manifest."""
    if not body.lstrip().startswith(b"{"):
        return None
    try:
        entries = json.loads(body)["entries"]
        return [str(entry["url"]) for entry in cast("list[dict[str, Any]]", entries)]
    except (ValueError, KeyError, TypeError):
        return None


def place_of(url: str) -> tuple[str, str]:
    """Return the bucket and the key of an `s3://` address."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def records_of(body: bytes) -> list[bytes]:
    """Return the records of an object for COPY; joined, they are the object again.

    JSON documents are split where each ends, all other data by lines: Firehose writes no separator between records.
    """
    try:
        return list(_documents(body.decode()))
    except (ValueError, RecursionError):
        return body.splitlines(keepends=True)


def _documents(text: str) -> Iterator[bytes]:
    start = at = 0
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    while at < len(text):
        if text[at] not in "{[":
            raise ValueError(text[at : at + 20])
        _, at = _decoder.raw_decode(text, at)
        while at < len(text) and text[at] in _BLANKS:
            at += 1
        yield text[start:at].encode()
        start = at
