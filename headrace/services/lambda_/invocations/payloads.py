"""Checks what an invocation sends: its payload and its client context."""

from __future__ import annotations

import base64
import json

import msgspec

from headrace.services.lambda_.errors import invalid_request_content, too_large
from headrace.services.lambda_.limits import ASYNC_PAYLOAD_BYTES, SYNC_PAYLOAD_BYTES


def check_payload(payload: bytes, invocation_type: str, client_context: str) -> tuple[bytes, str]:
    """Return the event and the client context in the Runtime API's form. Raises AwsError."""
    if len(payload) > most_bytes(invocation_type):
        raise too_large(len(payload), most_bytes(invocation_type), invocation_type)
    payload = payload or b"{}"
    _check_json(payload)
    return payload, _decode_client_context(client_context)


def most_bytes(invocation_type: str) -> int:
    """Return how large the payload of an invocation may be."""
    return ASYNC_PAYLOAD_BYTES if invocation_type == "Event" else SYNC_PAYLOAD_BYTES


def _check_json(payload: bytes) -> None:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_request_content(f"Could not parse request body into json: {error}") from None


def _decode_client_context(encoded: str) -> str:
    """Return the client context as the Runtime API's header wants it: JSON on one line."""
    if not encoded:
        return ""
    try:
        decoded = msgspec.json.decode(base64.b64decode(encoded, validate=True))
    except ValueError as error:
        raise invalid_request_content(
            "Client context must be a valid Base64-encoded JSON object."
        ) from error
    # ASCII only, as header values are.
    return json.dumps(decoded, separators=(",", ":"))
