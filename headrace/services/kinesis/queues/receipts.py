"""Makes and reads receipt handles: opaque and authenticated, valid for one queue.

A handle names a record by shard number and index, and the receive that returned it. It holds a MAC, so that a handle of
another queue, or one that nobody issued, is told from a valid one.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import struct
from typing import NamedTuple

_BODY = struct.Struct(">IQQ")
_MAC_BYTES = 10
_HANDLE_BYTES = _BODY.size + _MAC_BYTES


class InvalidReceipt(ValueError):
    """The text is no receipt handle of this queue."""


class Receipt(NamedTuple):
    """What a handle names: a record by its shard's number and its index there, and the number of the receive."""

    shard_number: int
    record: int
    number: int


class ReceiptCodec:
    """Makes and reads the handles of one queue. Thread-safe."""

    def __init__(self, key: bytes, queue_id: str) -> None:
        """Take the key of the cloud's tokens (32 bytes)."""
        self._key = hashlib.blake2b(b"receipt" + queue_id.encode(), key=key).digest()

    def seal(self, shard_number: int, index: int, number: int) -> str:
        """Return a handle of 40 characters."""
        body = _BODY.pack(shard_number, index, number)
        return binascii.b2a_base64(body + self._mac(body), newline=False).decode("ascii")

    def open(self, handle: str) -> Receipt:
        """Return what a handle names. Raises InvalidReceipt."""
        try:
            sealed = binascii.a2b_base64(handle, strict_mode=True)
        except ValueError as error:  # binascii's own error is one
            raise InvalidReceipt from error
        body = sealed[: _BODY.size]
        if len(sealed) != _HANDLE_BYTES or not hmac.compare_digest(
            sealed[_BODY.size :], self._mac(body)
        ):
            raise InvalidReceipt
        return Receipt(*_BODY.unpack(body))

    def _mac(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, key=self._key, digest_size=_MAC_BYTES).digest()
