"""Answers CloudFormation for a custom resource: `cfnresponse.send(event, context, cfnresponse.SUCCESS, {})`."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

SUCCESS = "SUCCESS"
FAILED = "FAILED"


def send(
    event: Any,
    context: Any,
    responseStatus: str,
    responseData: Any,
    physicalResourceId: str | None = None,
    noEcho: bool = False,
    reason: str | None = None,
) -> None:
    """Send the answer to the event's ResponseURL; log a failure."""
    answer: dict[str, Any] = {
        "Status": responseStatus,
        "Reason": reason or f"See the details in CloudWatch Log Stream: {context.log_stream_name}",
        "PhysicalResourceId": physicalResourceId or context.log_stream_name,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "NoEcho": noEcho,
        "Data": responseData,
    }
    body = json.dumps(answer).encode()
    # The URL is signed without a content type.
    headers = {"content-type": "", "content-length": str(len(body))}
    request = urllib.request.Request(event["ResponseURL"], data=body, headers=headers, method="PUT")
    try:
        with urllib.request.urlopen(request) as answered:
            print("Status code:", answered.status)  # noqa: T201
    except Exception as error:  # noqa: BLE001 - the function's own log says it
        print("send(..) failed executing the request:", error)  # noqa: T201
