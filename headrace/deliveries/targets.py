"""Builds the call that delivers a payload to a target of EventBridge Scheduler or of a pipe, by the target's ARN.

Converts the parameters of a state, a schedule or an API's integration to the types of the called operation.

Their members begin with a capital letter, whatever the service's API uses (documented:
https://docs.aws.amazon.com/step-functions/latest/dg/supported-services-awssdk.html).

Sends events of rules and pipes to HTTP endpoints: API destinations, and methods of this cloud's own APIs.

Documented: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-api-destinations.html and
eb-api-gateway-target.html.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import service_model
from headrace.core.values import parse_json
from headrace.deliveries.outside_http import exchange, request
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import MOTO_LOCK

UNSUPPORTED = "headrace does not deliver to such a target, though AWS does"


@dataclass(frozen=True, slots=True)
class TargetCall:
    """One call of the control plane."""

    service: str
    operation: str
    params: dict[str, Any]


def target_call(
    arn: str, payload: str, parameters: Mapping[str, Any], *, source: str, now_ms: int, waits: bool
) -> TargetCall:
    """Return the call that delivers. Raises AwsError for a target that headrace does not have.

    Args:
        arn: the target's.
        payload: its input.
        parameters: the target's settings, such as `KinesisParameters` of a schedule or a pipe, merged.
        source: the source of events that name none, as text.
        now_ms: the time, for log events.
        waits: whether to wait for functions and state machines; the latter are express ones then.
    """
    parts = arn.split(":", 5)
    service = parts[2] if len(parts) == 6 else ""
    name = parts[5] if len(parts) == 6 else ""
    match service:
        case "lambda":
            kind = "RequestResponse" if waits else "Event"
            params = {"FunctionName": arn, "InvocationType": kind, "Payload": payload.encode()}
            return TargetCall("lambda", "Invoke", params)
        case "sqs":
            return _message_call(f"http://localhost/{parts[4]}/{name}", payload, parameters)
        case "sns":
            return TargetCall("sns", "Publish", {"TopicArn": arn, "Message": payload})
        case "kinesis":
            return _record_call(arn, payload, str(parameters.get("PartitionKey") or source))
        case "firehose":
            stream = name.removeprefix("deliverystream/")
            params = {"DeliveryStreamName": stream, "Record": {"Data": payload.encode()}}
            return TargetCall("firehose", "PutRecord", params)
        case "states":
            operation = "StartSyncExecution" if waits else "StartExecution"
            params = {"stateMachineArn": arn, "input": payload}
            return TargetCall("stepfunctions", operation, params)
        case "events":
            return _event_call(arn, payload, parameters, source)
        case "logs":
            group = name.removeprefix("log-group:").removesuffix(":*")
            return _log_event_call(group, payload, parameters, now_ms)
        case "scheduler" if name.startswith("aws-sdk:"):
            return _any_call(name, payload)
        case _:
            raise AwsError("UnsupportedTarget", f"{arn}: {UNSUPPORTED}")


def _message_call(queue_url: str, payload: str, parameters: Mapping[str, Any]) -> TargetCall:
    params = {"QueueUrl": queue_url, "MessageBody": payload}
    for member in ("MessageGroupId", "MessageDeduplicationId"):
        if parameters.get(member):
            params[member] = parameters[member]
    return TargetCall("sqs", "SendMessage", params)


def _record_call(stream_arn: str, payload: str, partition_key: str) -> TargetCall:
    params = {
        "StreamARN": stream_arn,
        "StreamName": stream_arn.split(":", 5)[5].removeprefix("stream/"),
        "PartitionKey": partition_key[:256],
        "Data": payload.encode(),
    }
    return TargetCall("kinesis", "PutRecord", params)


def _event_call(
    bus_arn: str, payload: str, parameters: Mapping[str, Any], source: str
) -> TargetCall:
    entry = {
        "Source": parameters.get("Source") or source,
        "DetailType": parameters.get("DetailType") or f"Event from {source}",
        "Detail": payload,
        "EventBusName": bus_arn,
        "Resources": list(parameters.get("Resources") or []),
        **({"Time": _time(parameters["Time"])} if parameters.get("Time") else {}),
    }
    return TargetCall("events", "PutEvents", {"Entries": [entry]})


def _log_event_call(
    group: str, payload: str, parameters: Mapping[str, Any], now_ms: int
) -> TargetCall:
    at_ms = _milliseconds(parameters.get("Timestamp", now_ms))
    params = {
        "logGroupName": group,
        "logStreamName": parameters.get("LogStreamName") or "pipes",
        "logEvents": [{"timestamp": at_ms, "message": payload}],
    }
    return TargetCall("logs", "PutLogEvents", params)


def _milliseconds(value: Any) -> int:
    """Return a log event's time. Raises AwsError."""
    try:
        return int(value)
    except ValueError as error:
        raise AwsError("ValidationException", f"{value} is not a time in milliseconds") from error


def _time(text: Any) -> datetime:
    """Return an event's time. Raises AwsError."""
    try:
        return datetime.fromisoformat(str(text))
    except ValueError as error:
        raise AwsError("ValidationException", f"{text} is not a time of RFC 3339") from error


def _any_call(name: str, payload: str) -> TargetCall:
    """Return the call of a universal target, `aws-sdk:SERVICE:ACTION`, whose input is the parameters."""
    _, service, action = [*name.split(":", 2), ""][:3]
    try:
        params: Any = parse_json(payload or "{}")
    except ValueError as error:
        raise AwsError("ValidationException", "the input is not JSON") from error
    known = {"sfn": "stepfunctions", "eventbridge": "events", "cloudwatchlogs": "logs"}
    service, operation = known.get(service, service), f"{action[:1].upper()}{action[1:]}"
    if operation in service_model(service).operation_names and isinstance(params, dict):
        params = convert_parameters(service, operation, cast("dict[str, Any]", params))
    return TargetCall(service, operation, params)


def convert_parameters(
    service: str, operation: str, params: Mapping[str, Any], *, takes_json: bool = False
) -> dict[str, Any]:
    """Return parameters in the operation's form: its own names, bytes from text, times from ISO text.

    With `takes_json`, an object or a list for a text becomes its JSON.
    """
    shape: Any = service_model(service).operation_model(operation).input_shape
    return {} if shape is None else _convert(shape, params, takes_json)


def _convert(shape: Any, value: Any, takes_json: bool) -> Any:
    kind = shape.type_name
    if kind == "structure" and isinstance(value, Mapping):
        members = {name.lower(): name for name in shape.members}
        members_converted: dict[str, Any] = {}
        for name, inner in cast("Mapping[str, Any]", value).items():
            member = name if name in shape.members else members.get(name.lower(), name)
            known = shape.members.get(member)
            members_converted[member] = (
                inner if known is None else _convert(known, inner, takes_json)
            )
        return members_converted
    if kind == "list" and isinstance(value, list):
        elements = cast("list[Any]", value)
        return [_convert(shape.member, element, takes_json) for element in elements]
    if kind == "map" and isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        return {name: _convert(shape.value, e, takes_json) for name, e in pairs.items()}
    if kind == "blob" and not isinstance(value, bytes | bytearray):
        return (value if isinstance(value, str) else _json_text(value)).encode()
    if takes_json and kind == "string" and isinstance(value, (Mapping, list)):
        return _json_text(value)
    if kind == "timestamp" and isinstance(value, str):
        return datetime.fromisoformat(value)
    return value


def _json_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# Documented: an endpoint has five seconds to answer; these statuses, and those from 500 on, are retried.
ANSWER_WITHIN_S = 5.0
TRIED_AGAIN = (401, 407, 409, 429)
_JSON = "application/json; charset=utf-8"
# Headers that a connection or a target cannot set (documented in part).
_OWN_HEADERS = ("content-length", "host", "connection")


class HttpCall(msgspec.Struct, omit_defaults=True):
    """A request to make, without its body.

    Attributes:
        method: the HTTP method.
        url: the endpoint's; for an API in this cloud, the path from the stage on.
        headers: by name.
        api: the id of an API in this cloud; empty for another endpoint.
        account: the account that calls the API.
        token: the OAuth request that returns the token for the endpoint.
        members: the members that a connection adds to the body.
    """

    method: str
    url: str
    headers: dict[str, str] = {}
    api: str = ""
    account: str = ""
    token: HttpCall | None = None
    form: dict[str, str] = {}
    members: dict[str, Any] = {}


def is_http(arn: str) -> bool:
    """Whether a target's ARN is an API destination's or an API method's."""
    parts = arn.split(":", 5)
    return len(parts) == 6 and (
        parts[2] == "execute-api"
        or (parts[2] == "events" and parts[5].startswith("api-destination/"))
    )


def http_call(arn: str, parameters: Mapping[str, Any]) -> HttpCall:
    """Return the call for a target. Raises AwsError when its destination or connection does not exist.

    Args:
        arn: the target's; see `is_http`.
        parameters: HttpParameters: PathParameterValues, HeaderParameters, QueryStringParameters.
    """
    headers = {"Content-Type": _JSON, "User-Agent": "Amazon/EventBridge/ApiDestinations"}
    headers |= _drop_forbidden_headers(parameters.get("HeaderParameters") or {})
    query = dict(parameters.get("QueryStringParameters") or {})
    values = [
        str(path_parameter_value)
        for path_parameter_value in parameters.get("PathParameterValues") or []
    ]
    parts = arn.split(":", 5)
    if parts[2] == "execute-api":
        api, _, rest = parts[5].partition("/")
        stage, _, rest = rest.partition("/")
        method, _, path = rest.partition("/")
        headers["User-Agent"] = "Amazon/EventBridge"
        # The address of an HTTP API's default stage has no stage in it.
        url = _url(f"/{path}" if stage == "$default" else f"/{stage}/{path}", values, query)
        method = "POST" if method in ("", "*") else method
        return HttpCall(method, url, headers, api=api, account=parts[4])
    with MOTO_LOCK:
        destination, connection = _destination(arn)
        http = HttpCall(str(destination.http_method), "", headers, account=parts[4])
        _authorize(http, connection, query)
        http.url = _url(str(destination.invocation_endpoint), values, query)
    return http


def connection_call(
    arn: str, method: str, url: str, headers: dict[str, str], query: dict[str, Any]
) -> HttpCall:
    """Return a call with a connection's authorization. Raises AwsError when no connection has this ARN."""
    with MOTO_LOCK:
        http = HttpCall(method, "", headers, account=arn.split(":")[4] if ":" in arn else "")
        _authorize(http, _connection(arn), query)
    http.url = _url(url, [], query)
    return http


def send(call: HttpCall, body: bytes) -> bytes:
    """Make a call and return the answer's body. Raises AwsError; see `is_final`."""
    status, _, answer = make_exchange(call, body)
    if status >= 300:
        raise AwsError("SDK_CLIENT_ERROR", f"the endpoint answered {status}", status)
    return answer


def make_exchange(call: HttpCall, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
    """Make a call; return the answer's status, headers and body, whatever the status. Raises AwsError, OSError."""
    headers = dict(call.headers)
    if call.token is not None:
        headers["Authorization"] = f"Bearer {_token(call.token)}"
    body = _with_members(body, call.members)
    if call.api:
        if CURRENT.apis is None:
            raise AwsError("ServiceUnavailable", "headrace is starting or stopping", 503)
        return CURRENT.apis(
            call.api, method=call.method, url=call.url, headers=headers, body=body, by=call.account
        )
    return exchange(call.method, call.url, body, headers, within_s=ANSWER_WITHIN_S)


def is_final(error: AwsError) -> bool:
    """Whether a retry of a call cannot succeed."""
    return error.status < 500 and error.status not in TRIED_AGAIN


def _url(pattern: str, values: list[str], query: Mapping[str, Any]) -> str:
    """Return a URL with its `*` replaced, and a query added."""
    for value in values:
        pattern = pattern.replace("*", quote(value, safe=""), 1)
    if not query:
        return pattern
    return f"{pattern}{'&' if '?' in pattern else '?'}{urlencode(dict(query))}"


def _drop_forbidden_headers(headers: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in headers.items() if name.lower() not in _OWN_HEADERS}


def _destination(arn: str) -> tuple[Any, Any]:
    """Return moto's API destination and its connection. Raises AwsError."""
    from moto.events.models import events_backends

    parts = arn.split(":", 5)
    backends: Any = events_backends
    backend = backends[parts[4]][parts[3]]
    name = parts[5].split("/")[1]
    destination = backend.destinations.get(name)
    if destination is None:
        raise AwsError("ResourceNotFoundException", f"there is no API destination {name}")
    return destination, _connection(str(destination.connection_arn))


def _connection(arn: str) -> Any:
    """Return moto's connection of EventBridge. Raises AwsError."""
    from moto.events.models import events_backends

    parts = arn.split(":", 5)
    backends: Any = events_backends
    name = arn.partition(":connection/")[2].split("/")[0]
    connection = backends[parts[4]][parts[3]].connections.get(name) if name else None
    if connection is None:
        raise AwsError("ResourceNotFoundException", f"there is no connection {name or arn}")
    return connection


# --- connections ----------------------------------------------------------------------------------


def _authorize(call: HttpCall, connection: Any, query: dict[str, Any]) -> None:
    """Add a connection's authorization to a call and its query."""
    parameters = cast("dict[str, Any]", connection.auth_parameters or {})
    if key := parameters.get("ApiKeyAuthParameters"):
        call.headers[str(key["ApiKeyName"])] = str(key["ApiKeyValue"])
    if basic := parameters.get("BasicAuthParameters"):
        pair = f"{basic['Username']}:{basic['Password']}".encode()
        call.headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    if oauth := parameters.get("OAuthParameters"):
        call.token = _token_call(oauth)
    added = parameters.get("InvocationHttpParameters") or {}
    call.headers.update(_drop_forbidden_headers(_pairs(added.get("HeaderParameters"))))
    query.update(_pairs(added.get("QueryStringParameters")))
    call.members = _pairs(added.get("BodyParameters"))


def _pairs(listed: Any) -> dict[str, Any]:
    return {str(pair["Key"]): pair.get("Value") for pair in listed or []}


def _token_call(oauth: Mapping[str, Any]) -> HttpCall:
    client = oauth.get("ClientParameters") or {}
    added = oauth.get("OAuthHttpParameters") or {}
    form = {
        "grant_type": "client_credentials",
        "client_id": str(client.get("ClientID", "")),
        "client_secret": str(client.get("ClientSecret", "")),
        **{name: str(value) for name, value in _pairs(added.get("BodyParameters")).items()},
    }
    headers = _drop_forbidden_headers(_pairs(added.get("HeaderParameters")))
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    return HttpCall(
        str(oauth.get("HttpMethod") or "POST"),
        _url(str(oauth["AuthorizationEndpoint"]), [], _pairs(added.get("QueryStringParameters"))),
        headers,
        form=form,
    )


def _token(call: HttpCall) -> str:
    """Fetch an OAuth token. Raises AwsError."""
    if call.method == "GET":
        status, answer = request(
            "GET", _url(call.url, [], call.form), b"", call.headers, within_s=ANSWER_WITHIN_S
        )
    else:
        body = urlencode(call.form).encode()
        status, answer = request(
            call.method, call.url, body, call.headers, within_s=ANSWER_WITHIN_S
        )
    host = urlsplit(call.url).netloc
    if status >= 300:
        raise AwsError("SDK_CLIENT_ERROR", f"{host} answered {status} for a token", status)
    try:
        return str(parse_json(answer)["access_token"])
    except (ValueError, KeyError, TypeError) as error:
        raise AwsError("SDK_CLIENT_ERROR", f"{host} answered without a token", 502) from error


def _with_members(body: bytes, members: Mapping[str, Any]) -> bytes:
    """Return a body with a connection's members added, if it is a JSON object."""
    if not members:
        return body
    try:
        document: Any = parse_json(body)
    except ValueError:
        return body
    if not isinstance(document, dict):
        return body
    return json.dumps({**cast("dict[str, Any]", document), **members}).encode()
