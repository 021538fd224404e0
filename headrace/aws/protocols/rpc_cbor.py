"""Translates Smithy RPC v2 CBOR, which the newest SDKs use for CloudWatch, to AWS's JSON protocol and back.

A request becomes the JSON request of the same operation, and its JSON answer becomes CBOR, so that permissions,
strictness and the service see one form only. Source:
https://smithy.io/2.0/additional-specs/protocols/smithy-rpc-v2.html.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import cbor2
import msgspec
from botocore.model import ListShape, MapShape, Shape, StructureShape

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.model import operation_model, service_model

_PROTOCOL = "rpc-v2-cbor"
_PATH = re.compile(r"/service/([\w.-]{1,200})/operation/(\w{1,200})")


def is_rpc(request: HttpRequest) -> bool:
    """Whether a request uses this protocol."""
    return request.headers.get("smithy-protocol") == _PROTOCOL


def answer_as_cbor(
    request: HttpRequest, service: str, answer_json: Callable[[HttpRequest], HttpResponse]
) -> HttpResponse:
    """Answer a request by the answer of `answer_json` to the same request in JSON. `service` is botocore's name."""
    try:
        operation, asked = _as_json(request, service)
    except AwsError as error:
        return _response(error.status, [], {"__type": error.code, "message": error.message})
    answer = answer_json(asked)
    value: Any = msgspec.json.decode(bytes(cast("bytes", answer.body)) or b"{}")
    if "Message" in value and answer.status >= 300:
        value["message"] = value.pop("Message")
    if answer.status < 300:
        value = _with_types(operation_model(service, operation).output_shape, value)
    kept = [(name, text) for name, text in answer.headers if name.lower() not in _OF_A_BODY]
    return _response(answer.status, kept, value)


_OF_A_BODY = ("content-type", "content-length", "x-amzn-errortype")


def _response(status: int, headers: list[tuple[str, str]], value: Any) -> HttpResponse:
    kind = [("Content-Type", "application/cbor"), ("smithy-protocol", _PROTOCOL)]
    return HttpResponse(status, [*kind, *headers], cbor2.dumps(value))


def _as_json(request: HttpRequest, service: str) -> tuple[str, HttpRequest]:
    """Return the operation and the request in JSON. Raises AwsError."""
    path = _PATH.fullmatch(request.path)
    operation = "" if path is None else path[2]
    model = service_model(service)
    metadata: Mapping[str, Any] = model.metadata
    if "jsonVersion" not in metadata or operation not in model.operation_names:
        raise AwsError(
            "UnknownOperationException", f"{service} has no operation {operation or request.path}."
        )
    try:
        value: Any = cbor2.loads(request.body, semantic_decoders=_TAGS) if request.body else {}
        body = msgspec.json.encode(_plain(value))
    except (cbor2.CBORDecodeError, EOFError, ValueError, TypeError, RecursionError) as error:
        raise AwsError("SerializationException", "The body is not the CBOR of an input.") from error
    headers = {
        **{name: text for name, text in request.headers.items() if name != "smithy-protocol"},
        "content-type": f"application/x-amz-json-{metadata['jsonVersion']}",
        "content-length": str(len(body)),
        "x-amz-target": f"{metadata['targetPrefix']}.{operation}",
    }
    return operation, replace(request, path="/", query="", headers=headers, body=body)


def _refuse_tag(*_: Any) -> Any:
    raise ValueError("the protocol has no such tag")


def _seconds(value: Any, _immutable: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("no time")
    return value


# Times are seconds under tag 1; other tags, such as shared references, could expand a small body.
_TAGS: dict[int, Callable[..., Any]] = {
    **dict.fromkeys(
        (25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1004, 43000), _refuse_tag
    ),
    1: _seconds,
}


def _plain(value: Any) -> Any:
    """Return a decoded value as AWS's JSON writes it, with base64 for bytes. Raises ValueError when JSON cannot."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        if not all(isinstance(name, str) for name, _ in pairs):
            raise ValueError("a key that is no text")
        return {name: _plain(item) for name, item in pairs}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if value is None or isinstance(value, str | int | float):
        if isinstance(value, float) and value - value != 0:
            raise ValueError("JSON has no such number")
        return value
    raise ValueError("no value of the protocol")


def _with_types(shape: Shape | None, value: Any) -> Any:
    """Return an answer's JSON value with times under tag 1 and blobs as bytes."""
    if shape is None or value is None:
        return value
    if isinstance(shape, StructureShape):
        members = cast("Mapping[str, Any]", shape.members)
        return {name: _with_types(members.get(name), item) for name, item in value.items()}
    if isinstance(shape, ListShape):
        return [_with_types(shape.member, item) for item in value]
    if isinstance(shape, MapShape):
        return {name: _with_types(shape.value, item) for name, item in value.items()}
    if shape.type_name == "timestamp":
        seconds = datetime.fromisoformat(value).timestamp() if isinstance(value, str) else value
        return cbor2.CBORTag(1, seconds)
    if shape.type_name == "blob":
        return base64.b64decode(value)
    return float(value) if shape.type_name in ("double", "float") else value
