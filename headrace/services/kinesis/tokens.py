"""Pagination tokens: opaque and authenticated, valid for 300 seconds and only for the operation that returned them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import NEXT_TOKEN_LIFE_MS

_MAC_BYTES = 16


class TokenCodec:
    """Makes and reads tokens. Thread-safe. The key is stored, so a token survives a restart."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, operation: str, value: dict[str, Any], now_ms: int) -> str:
        """Return a token that holds `value` (anything that json can dump)."""
        body = json.dumps([operation, now_ms, value], separators=(",", ":")).encode()
        return base64.b64encode(self._mac(body) + body).decode("ascii")

    def open(self, operation: str, text: str, now_ms: int) -> dict[str, Any]:
        """Return the value in a token. Raises InvalidArgumentException, ExpiredNextTokenException."""
        try:
            sealed = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise invalid_argument("NextToken is invalid.") from error
        mac, body = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body)):
            raise invalid_argument("NextToken is invalid.")
        made_for, made_ms, value = json.loads(body)
        if made_for != operation:
            raise invalid_argument("NextToken is invalid.")
        if now_ms - made_ms > NEXT_TOKEN_LIFE_MS:
            raise AwsError("ExpiredNextTokenException", "NextToken has expired.")
        return value

    def _mac(self, body: bytes) -> bytes:
        return hashlib.blake2b(b"token" + body, key=self._key, digest_size=_MAC_BYTES).digest()
