"""A queued asynchronous event, and the documents that are sent to its destinations.

Formats: https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html (documented).
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from headrace.core.ports import BusEvent, InvokeResult
from headrace.services.lambda_.destinations import Delivery
from headrace.services.lambda_.names import LATEST, FunctionRef
from headrace.services.lambda_.runtime.platform_log import format_iso_time

# The length of the attribute ErrorMessage of a dead-letter message.
_ERROR_MESSAGE_CHARACTERS = 1024


@dataclass(slots=True)
class AsyncEvent:
    """One queued event. `payload` is base64; times are in milliseconds since 1970."""

    request_id: str
    account: str
    region: str
    name: str
    qualifier: str | None
    payload: str
    client_context: str
    created_ms: int
    failures: int = 0
    throttles: int = 0

    @property
    def ref(self) -> FunctionRef:
        """The function to invoke."""
        return FunctionRef(self.account, self.region, self.name, self.qualifier)

    @property
    def body(self) -> bytes:
        """The payload."""
        return base64.b64decode(self.payload)

    @property
    def function_arn(self) -> str:
        """The function's ARN, always with a qualifier."""
        return f"{self.ref.arn}:{self.qualifier or LATEST}"


def record(
    event: AsyncEvent, *, condition: str, result: InvokeResult | None, now_ms: int
) -> dict[str, Any]:
    """Return the invocation record of an event that has succeeded or was given up.

    Args:
        event: the event.
        condition: `Success`, `RetriesExhausted`, `EventAgeExceeded` or `ZeroReservedConcurrency`.
        result: the result of its last invocation, or None when there was none.
        now_ms: the current time.
    """
    document: dict[str, Any] = {
        "version": "1.0",
        "timestamp": format_iso_time(now_ms),
        "requestContext": {
            "requestId": event.request_id,
            "functionArn": event.function_arn,
            "condition": condition,
            "approximateInvokeCount": event.failures + (1 if condition == "Success" else 0),
        },
        "requestPayload": _json_or_text(event.body),
    }
    if result is None:
        return document
    context: dict[str, Any] = {"statusCode": 200, "executedVersion": result.executed_version}
    if result.function_error:
        context["functionError"] = result.function_error
    document["responseContext"] = context
    document["responsePayload"] = _json_or_text(result.payload)
    return document


def build_delivery(
    event: AsyncEvent, document: dict[str, Any], *, bus_arn: str, now_ms: int, unique: str
) -> Delivery:
    """Return the record in the form of each kind of destination. `unique` is the end of an object's key."""
    text = json.dumps(document, separators=(",", ":"))
    succeeded = document["requestContext"]["condition"] == "Success"
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    outcome = "Success" if succeeded else "Failure"
    return Delivery(
        text,
        f"aws/lambda/async/{event.name}/{now:%Y/%m/%d}/{now:%Y-%m-%dT%H.%M.%S}-{unique}",
        BusEvent(
            "lambda",
            f"Lambda Function Invocation Result - {outcome}",
            text,
            (bus_arn, event.function_arn),
        ),
    )


def build_dead_letter(event: AsyncEvent, result: InvokeResult | None) -> Delivery:
    """Return the message for a dead-letter queue or topic: the event itself, with the error in attributes."""
    attributes: dict[str, str | int] = {"RequestID": event.request_id, "ErrorCode": 200}
    if result is not None:
        error: Any = _json_or_text(result.payload)
        if isinstance(error, dict):
            error = cast("dict[str, Any]", error).get("errorMessage")
        # An attribute's value cannot be empty.
        attributes["ErrorMessage"] = str(error)[:_ERROR_MESSAGE_CHARACTERS] or "error"
    return Delivery(event.body.decode("utf-8", "replace"), attributes=attributes)


def _json_or_text(payload: bytes) -> Any:
    try:
        return json.loads(payload or b"null")
    except ValueError:
        return payload.decode("utf-8", "replace")
