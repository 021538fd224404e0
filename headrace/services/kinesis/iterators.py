"""Shard iterators: opaque, authenticated, five minutes of life, bound to one incarnation of a stream.

An iterator is base64 of a MAC and what it covers. The key is kept with the streams, so an iterator survives
a restart of the cloud as it would on AWS.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from dataclasses import dataclass

from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import ITERATOR_LIFE_MS

_BODY = struct.Struct(">16sQQQ")
_MAC_BYTES = 16


class ExpiredIterator(Exception):
    """The iterator is older than five minutes; `created_ms` says when it was made."""

    def __init__(self, created_ms: int) -> None:
        super().__init__(created_ms)
        self.created_ms = created_ms


@dataclass(frozen=True, slots=True)
class ShardIterator:
    """A place in a shard: the index of the next record to read."""

    stream_id: str
    shard_number: int
    index: int
    created_ms: int


class IteratorCodec:
    """Seals and opens iterators. Thread-safe."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, stream_id: str, shard_number: int, index: int, now_ms: int) -> str:
        """Return an iterator's text. `stream_id` is 32 hexadecimal digits."""
        body = _BODY.pack(bytes.fromhex(stream_id), shard_number, index, now_ms)
        # Padded to the length that AWS's have, about 200 characters: clients size columns by it.
        return base64.b64encode(self._mac(body) + body + bytes(96)).decode("ascii")

    def open(self, text: str, now_ms: int) -> ShardIterator:
        """Return what `text` holds. Raises AwsError InvalidArgumentException, ExpiredIterator."""
        try:
            sealed = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise invalid_argument("Invalid ShardIterator.") from error
        mac, body = sealed[:_MAC_BYTES], sealed[_MAC_BYTES : _MAC_BYTES + _BODY.size]
        if len(sealed) != _MAC_BYTES + _BODY.size + 96 or any(sealed[_MAC_BYTES + _BODY.size :]):
            raise invalid_argument("Invalid ShardIterator.")
        if not hmac.compare_digest(mac, self._mac(body)):
            raise invalid_argument("Invalid ShardIterator.")
        stream_id, shard_number, index, created_ms = _BODY.unpack(body)
        if now_ms - created_ms > ITERATOR_LIFE_MS:
            raise ExpiredIterator(created_ms)
        return ShardIterator(stream_id.hex(), shard_number, index, created_ms)

    def _mac(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, key=self._key, digest_size=_MAC_BYTES).digest()
