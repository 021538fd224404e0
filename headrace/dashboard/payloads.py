"""Turns a record's bytes into text for people: gzip and KPL are unpacked, what is no text is base64."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from headrace.client.aggregation import disaggregate

# A row of the browser shows this much; the record's own page shows all up to MOST_WHOLE_BYTES.
PREVIEW_BYTES = 2_048
MOST_WHOLE_BYTES = 10 * 1024 * 1024
_GZIP = b"\x1f\x8b"


def describe_payload(data: bytes, most_bytes: int = PREVIEW_BYTES) -> dict[str, Any]:
    """Return a record's payload: `bytes`, `encoding` (text or base64), `packing`, `data` and `isCut`.

    Nothing of it is parsed: a browser that shows it as text cannot be harmed by it.
    """
    packing: list[str] = []
    raw = data
    if raw.startswith(_GZIP):
        unpacked = _gunzip(raw)
        if unpacked is not None:
            packing.append("gzip")
            raw = unpacked
    is_cut = len(raw) > most_bytes
    part = raw[:most_bytes]
    document: dict[str, Any] = {"bytes": len(data), "packing": packing, "isCut": is_cut}
    try:
        # A character that the cut goes through is left out; any other invalid byte is not text.
        text = part.decode("utf-8") if not is_cut else _decode_cut(part)
        if "\x00" not in text:
            return {**document, "encoding": "text", "data": text}
    except UnicodeDecodeError:
        pass  # not text: base64 below
    return {**document, "encoding": "base64", "data": base64.b64encode(part).decode()}


def user_records(data: bytes) -> list[tuple[str, bytes]] | None:
    """Return key and data of the records inside a KPL aggregate; None for any other record."""
    records = disaggregate(data)
    return None if records is None else [(one.key, one.data) for one in records]


def _decode_cut(part: bytes) -> str:
    for drop in range(4):
        try:
            return part[: len(part) - drop].decode("utf-8")
        except UnicodeDecodeError as error:
            if error.start < len(part) - 4:
                raise
    return part.decode("utf-8")


def _gunzip(data: bytes) -> bytes | None:
    """Return the unpacked bytes, at most MOST_WHOLE_BYTES and one; None for damaged data."""
    try:
        return zlib.decompressobj(wbits=31).decompress(data, MOST_WHOLE_BYTES + 1)
    except zlib.error:
        return None
