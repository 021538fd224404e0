"""Lists a queue's messages without receiving them, at LocalStack's address for it: `/_aws/sqs/messages`.

As LocalStack documents it (docs.localstack.cloud/aws/services/sqs): the queue is named by `QueueUrl` or by the path
`/REGION/ACCOUNT/NAME`; `ShowInvisible` and `ShowDelayed` add messages in flight and delayed ones; the answer is
ReceiveMessage's, in XML, in JSON for `Accept: application/json`, or by the JSON protocol.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import SQS_MESSAGES, json_response
from headrace.aws.protocols.codec_json import decode_body
from headrace.aws.protocols.codec_moto import serialize_error, serialize_output
from headrace.aws.signatures.credential_scopes import scope_of
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.pages.routes import Route

JSON_1_0 = "application/x-amz-json-1.0"
# Account, region, name, and whether to show messages in flight and delayed ones; None when there is no such queue.
ListMessages = Callable[[str, str, str, bool, bool, int], list[dict[str, Any]] | None]
_HOST_REGION = re.compile(r"(?:sqs\.)?([a-z]{2}(?:-[a-z]+)+-\d)\.")
_YES = ("true", "1")


def routes(list_messages: ListMessages, *, region: str, clock: Clock, ids: Ids) -> list[Route]:
    """Return the route. `region` is that of queue URLs which name none, in requests that name none either."""

    def answer(request: HttpRequest, rest: list[str]) -> HttpResponse:
        request_id = ids.uuid()
        try:
            asked = _parameters(request)
            place = rest if len(rest) == 3 else _place(asked.get("QueueUrl", ""), request, region)
            shows = [
                asked.get(name, "").lower() in _YES for name in ("ShowInvisible", "ShowDelayed")
            ]
            messages = list_messages(
                place[1], place[0], place[2], shows[0], shows[1], clock.now_ms()
            )
            if messages is None:
                raise _missing()
        except AwsError as error:
            return serialize_error("sqs", None, error, request_id, "query")
        result = {"Messages": messages} if messages else {}
        if _is_json_protocol(request):
            return json_response(_plain(result))
        if "json" in request.headers.get("accept", ""):
            return json_response(_plain(_json_of(messages, request_id)))
        return serialize_output("sqs", "ReceiveMessage", result, request_id, "query")

    return [Route(SQS_MESSAGES, answer, ("GET", "POST"), below=True)]


def _is_json_protocol(request: HttpRequest) -> bool:
    return request.headers.get("content-type", "").startswith(JSON_1_0)


def _missing() -> AwsError:
    return AwsError(
        "AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.", 400
    )


def _parameters(request: HttpRequest) -> dict[str, str]:
    """Return what a query, a form, or a request of SQS's JSON protocol says. Raises AwsError."""
    values = dict(parse_qsl(request.query))
    if _is_json_protocol(request):
        members = decode_body(request.body or b"{}", JSON_1_0)
        values |= {name: str(value) for name, value in members.items()}
        operation = request.headers.get("x-amz-target", ".").rpartition(".")[2]
    else:
        values |= dict(parse_qsl(request.body.decode("utf-8", "replace")))
        operation = values.get("Action", "")
    if operation not in ("", "ReceiveMessage"):
        raise AwsError("InvalidRequest", "This endpoint only accepts ReceiveMessage calls")
    return values


def _place(queue_url: str, request: HttpRequest, region: str) -> list[str]:
    """Return the region, account and name of a queue's URL. Raises AwsError."""
    try:
        url = urlsplit(queue_url)
    except ValueError as error:
        raise _missing() from error
    parts = url.path.strip("/").split("/")
    if parts[0] == "queue" and len(parts) == 4:
        return parts[1:]
    if len(parts) != 2:
        raise _missing()
    named = _HOST_REGION.match(url.hostname or "")
    return [named[1] if named else scope_of(request).region or region, *parts]


def _plain(value: Any) -> Any:
    """Return an answer with its bytes in Base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: _plain(member) for name, member in members.items()}
    return [_plain(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _json_of(messages: list[dict[str, Any]], request_id: str) -> dict[str, Any]:
    """Return the XML of an answer as JSON: elements that are there twice are lists."""
    shown = [_elements_of(message) for message in messages]
    result = None if not shown else {"Message": shown[0] if len(shown) == 1 else shown}
    response = {
        "ReceiveMessageResult": result,
        "ResponseMetadata": {"RequestId": request_id},
    }
    return {"ReceiveMessageResponse": response}


def _elements_of(message: Mapping[str, Any]) -> dict[str, Any]:
    elements = {
        name: value
        for name, value in message.items()
        if name not in ("Attributes", "MessageAttributes")
    }
    for name in ("Attributes", "MessageAttributes"):
        pairs = [{"Name": key, "Value": value} for key, value in message.get(name, {}).items()]
        if pairs:
            elements[name.removesuffix("s")] = pairs
    return elements
