"""Pagination tokens: opaque and authenticated, valid for 300 seconds and only for the operation that returned them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from headrace.aws.calls.errors import AwsError
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import NEXT_TOKEN_LIFE_MS

_MAC_BYTES = 16
T = TypeVar("T")


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

    def cut_page(
        self,
        operation: str,
        items: Iterable[T],
        name_of: Callable[[T], str],
        *,
        token: str | None,
        limit: int,
        now_ms: int,
        after: str = "",
        scope: str = "",
    ) -> tuple[list[T], str | None]:
        """Return a page of a list that is sorted by name, and the token of the next page; None at the end.

        Args:
            operation: the operation that lists.
            items: the whole list.
            name_of: returns an item's name, which no other one has.
            token: the token that the request brings.
            limit: the most items of the page.
            now_ms: the time.
            after: without a token, the page begins behind this name.
            scope: a token that was made for another scope is refused.

        Raises InvalidArgumentException, ExpiredNextTokenException.
        """
        if token is not None:
            held = self.open(operation, token, now_ms)
            if held.get("of", "") != scope:
                raise invalid_argument("NextToken was not given for the stream that is named.")
            after = held["after"]
        rest = sorted((one for one in items if name_of(one) > after), key=name_of)
        page = rest[:limit]
        if len(rest) <= limit:
            return page, None
        value = {"of": scope, "after": name_of(page[-1])}
        return page, self.seal(operation, value, now_ms)

    def _mac(self, body: bytes) -> bytes:
        return hashlib.blake2b(b"token" + body, key=self._key, digest_size=_MAC_BYTES).digest()
