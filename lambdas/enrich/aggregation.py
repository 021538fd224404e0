"""Packs several records of a key into one, in the form of the Kinesis Producer Library.

The form (documented: "KPL Aggregated Record Format"): four bytes of magic, a protobuf message of a table of keys and of
records that point into it, and the message's MD5. Firehose, the Kinesis Client Library and headrace's Spark source take
such a record apart by themselves; a function does it itself (lambdas/aggregate/user_records.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5

MAGIC = b"\xf3\x89\x9a\xc2"
# The most that the form adds: to a whole, beside its key; and to each record in it.
WHOLE_BYTES, EACH_BYTES = 32, 16

_KEY_TABLE, _RECORDS, _DATA = 1, 3, 3
# Of a record: it has the first key of the table.
_FIRST_KEY = b"\x08\x00"
_BYTES = 2


def aggregated(partition_key: str, payloads: Sequence[bytes]) -> bytes:
    """Return one record's data that holds all payloads, in order."""
    body = b"".join(
        (
            _field(_KEY_TABLE, partition_key.encode()),
            *(_field(_RECORDS, _FIRST_KEY + _field(_DATA, payload)) for payload in payloads),
        )
    )
    return MAGIC + body + md5(body, usedforsecurity=False).digest()


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
