"""Aggregates several records of a key into one, in the Kinesis Producer Library's format.

The format (documented: "KPL Aggregated Record Format"): four magic bytes, a protobuf message with a table of keys and
with records that refer to it, and the message's MD5. Firehose, the Kinesis Client Library and headrace's Spark source
deaggregate such a record; a Lambda function must do it itself (lambdas/aggregate/user_records.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5

MAGIC = b"\xf3\x89\x9a\xc2"
# The most bytes that the format adds: to an aggregate, beside its key; and to each record in it.
WHOLE_BYTES, EACH_BYTES = 32, 16

_KEY_TABLE, _RECORDS, _DATA = 1, 3, 3
# A record's key field: the first key of the table.
_FIRST_KEY = b"\x08\x00"
_BYTES = 2


def aggregated(partition_key: str, payloads: Sequence[bytes]) -> bytes:
    """Return the data of one record with all payloads, in order."""
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
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
