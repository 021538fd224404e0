"""What the results of tasks tell of the HTTP answer: SdkHttpMetadata and SdkResponseMetadata.

As recorded from AWS for Lambda's Invoke, SQS's SendMessage, SNS's Publish, DynamoDB's calls and StartExecution
(LocalStack's stepfunctions/v2/services, 2023 to 2025); PutEvents and the SDKs' own integrations have none (recorded).
"""

from __future__ import annotations

import json
import secrets
import uuid
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.moto.current_cloud import CURRENT

_DYNAMODB = frozenset(("GetItem", "PutItem", "UpdateItem", "DeleteItem"))
_TELLING = {
    "dynamodb": _DYNAMODB,
    "lambda": frozenset(("Invoke",)),
    "sns": frozenset(("Publish",)),
    "sqs": frozenset(("SendMessage",)),
    "stepfunctions": frozenset(("StartExecution",)),
}
_JSON = "application/x-amz-json-1.0"


def metadata_of(service: str, operation: str, output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that are added to a call's output; none for calls whose results do not tell."""
    if operation not in _TELLING.get(service, ()):
        return {}
    request_id = secrets.token_hex(26).upper() if service == "dynamodb" else str(uuid.uuid4())
    now = datetime.fromtimestamp(CURRENT.clock.now_ms() / 1000, UTC)
    headers = {
        "x-amzn-RequestId": request_id,
        "Date": f"{now:%a, %d %b %Y %H:%M:%S GMT}",
        **_headers_of(service, output),
    }
    return {
        "SdkHttpMetadata": {
            "AllHttpHeaders": {name: [value] for name, value in headers.items()},
            "HttpHeaders": headers,
            "HttpStatusCode": int(output.get("StatusCode", 200)),
        },
        "SdkResponseMetadata": {"RequestId": request_id},
    }


def _headers_of(service: str, output: Mapping[str, Any]) -> dict[str, str]:
    if service == "lambda":
        root, parent = f"1-{secrets.token_hex(4)}-{secrets.token_hex(12)}", secrets.token_hex(8)
        return {
            "X-Amz-Executed-Version": str(output.get("ExecutedVersion", "$LATEST")),
            "x-amzn-Remapped-Content-Length": "0",
            "Connection": "keep-alive",
            "Content-Length": str(len(output.get("Payload") or b"")),
            "X-Amzn-Trace-Id": f"root={root};parent={parent};sampled=0",
            "Content-Type": "application/json",
        }
    if service == "sns":
        # The length of AWS's XML around the message's id.
        return {"Content-Length": "294", "Content-Type": "text/xml"}
    body = json.dumps(output, separators=(",", ":"), default=_as_number).encode()
    content = {"Content-Length": str(len(body)), "Content-Type": _JSON}
    if service == "dynamodb":
        crc32 = str(zlib.crc32(body))
        return {"Server": "Server", "Connection": "keep-alive", "x-amz-crc32": crc32, **content}
    return {"connection": "keep-alive", **content}


def _as_number(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else str(value)
