"""The rest-json, rest-xml and query protocols: operations, parameters and answers, by moto's parsers and serializers.

Only this module and `headrace.moto` use moto, whose version is pinned; tests/unit/aws/test_codec_oracle.py compares
the results with botocore's own client codecs. The services handle raw bodies (Lambda Invoke, S3 objects) themselves.
Imports moto when first used, so that a cloud is healthy before moto is loaded. Thread-safe.

Limits on a request's body while it is decoded: its unpacked size, its depth, its number of parameters.

A few kilobytes can be a gigabyte of zeros in gzip, a hundred thousand nested lists, or entities that expand without
end. The bounds are far beyond what SDKs send; they are headrace's own (assumed) where no source is named. The bodies of
services that headrace owns are bounded where they are decoded: `codec_json` (JSON and CBOR), `services/s3/bodies`
(XML), `services/lambda_/packages` (functions' code).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import sys
import zlib
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote_to_bytes
from xml.parsers import expat
from xml.sax.saxutils import escape

from botocore.exceptions import UnknownServiceError
from botocore.model import OperationNotFoundError

from headrace.aws.calls.errors import (
    AwsError,
    build_malformed_xml,
    serialization_error,
    unknown_operation,
)
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.protocols import codec_json
from headrace.aws.protocols.codec_json import decode_rest_json
from headrace.aws.protocols.moto_imports import load_moto

# The largest body that is held in memory: larger ones are files, which only S3 accepts.
MOST_UNPACKED_BYTES = 16 * 1024 * 1024
# DynamoDB, whose items nest deepest, allows 32 levels of two brackets each (documented: its quotas).
MOST_JSON_LEVELS = 100
MOST_XML_LEVELS = 100
MOST_FORM_FIELDS = 10_000
MOST_GZIP_MEMBERS = 1000
_GZIP = 16 + zlib.MAX_WBITS
# Unpacked in pieces: zlib copies the bytes behind each gzip member, which for a whole body of many members would be
# thousands of copies.
_PIECE_BYTES = 64 * 1024
# Bytes that decoders skip at the start: byte order marks, white space, and the zero bytes of UTF-16 and UTF-32.
_BEFORE_TEXT = b"\xef\xbb\xbf\xfe\xff \t\r\n\0"
# A string without an end matches up to the end of the text: otherwise a retry from each quote would take quadratic
# time.
_JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def check_body(request: HttpRequest) -> None:
    """Unpack a gzip body in place, and check its size and depth. Raises AwsError.

    For callers that pass the body to a decoder without own bounds, such as moto's.
    """
    if request.body_file is not None:
        raise _too_large()
    if request.headers.get("content-encoding", "").strip().lower() == "gzip":
        request.body = unpack(request.body)
        request.headers = {**request.headers, "content-length": str(len(request.body))}
        del request.headers["content-encoding"]
    first = request.body.lstrip(_BEFORE_TEXT)[:1]
    if first in (b"{", b"["):
        check_json(request.body)
    elif first == b"<":
        check_xml(request.body)
    else:
        check_form(request)


def unpack(packed: bytes) -> bytes:
    """Return the content of a gzip body with one or more members. Raises AwsError."""
    parts: list[bytes] = []
    room_bytes, members = MOST_UNPACKED_BYTES, 0
    unpacker = None
    try:
        for at in range(0, len(packed), _PIECE_BYTES):
            piece = packed[at : at + _PIECE_BYTES]
            while piece:
                if unpacker is None:
                    unpacker = zlib.decompressobj(_GZIP)
                    members += 1
                part = unpacker.decompress(piece, room_bytes + 1)
                room_bytes -= len(part)
                if room_bytes < 0 or members > MOST_GZIP_MEMBERS:
                    raise _too_large()
                parts.append(part)
                piece = unpacker.unused_data
                if unpacker.eof:
                    unpacker = None
    except zlib.error as error:
        raise serialization_error("The body is not in the GZIP format") from error
    if unpacker is not None:
        raise serialization_error("The body ends in the middle of its gzip stream")
    return b"".join(parts)


def check_json(body: bytes) -> None:
    """Refuse JSON that nests too deeply for a recursive decoder. Raises AwsError SerializationException."""
    if body.count(b"{") + body.count(b"[") <= MOST_JSON_LEVELS:
        return
    brackets = left = _JSON_STRING.sub(b"", body).translate(None, _NO_BRACKETS)
    # A round removes the innermost one or two levels; long lists of small things are gone after one.
    for _ in range(MOST_JSON_LEVELS // 2):
        before, left = left, left.replace(b"[]", b"").replace(b"{}", b"")
        if not left:
            return
        if len(left) == len(before):
            break
    level = 0
    for bracket in brackets:
        level += 1 if bracket in b"[{" else -1
        if level > MOST_JSON_LEVELS:
            raise serialization_error("The body is nested too deeply")


def check_xml(body: bytes) -> None:
    """Refuse a document type (which can define entities) and elements that nest too deeply. Raises AwsError.

    The parser refuses a body that is not XML.
    """
    level = 0

    def start(*_: Any) -> None:
        nonlocal level
        level += 1
        if level > MOST_XML_LEVELS:
            raise build_malformed_xml()

    def end(_: str) -> None:
        nonlocal level
        level -= 1

    def refuse(*_: Any) -> None:
        raise build_malformed_xml()

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = refuse
    with contextlib.suppress(expat.ExpatError):
        parser.Parse(body, True)


def check_form(request: HttpRequest) -> None:
    """Refuse more parameters than any request of the query protocol has. Raises AwsError."""
    form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    if form and request.body.count(b"&") >= MOST_FORM_FIELDS:
        raise AwsError("MalformedQueryString", "The request has too many parameters.", 400)


def _too_large() -> AwsError:
    return AwsError("RequestEntityTooLargeException", "Request is too large", 413)


@functools.cache
def _model(service: str) -> Any:
    load_moto()
    from moto.core.utils import get_service_model

    return get_service_model(service)


@functools.cache
def _router(service: str) -> Any:
    """Return moto's router. A path that belongs to one operation leads to it even when query parameters are missing.

    The validator then reports the missing parameter, as AWS does, instead of an unknown operation.
    """
    protocol = _model(service).protocol
    from moto.core.routing import RestRouter, get_service_router

    router: Any = get_service_router(service)
    # moto has no public API for this; its version is pinned.
    rest: Any = router._get_router(protocol)  # noqa: SLF001
    if protocol == "rest-json" and isinstance(rest, RestRouter):
        for rule in cast("Any", rest)._map.iter_rules():  # noqa: SLF001
            candidates = rule._action_selector.candidates  # noqa: SLF001
            if len(candidates) == 1:
                candidates[0].constraints.clear()
    return router


def moto_request(
    method: str, host: str, path: str, query: str, headers: Mapping[str, str], body: bytes
) -> Any:
    """Return a request in moto's form: a WSGI environment, as its own server creates.

    Made here, since werkzeug's builder, which takes a program's values for a test, takes seven times as long. moto is
    loaded.
    """
    from moto.core.request import PRESERVED_HEADER_NAMES_ENVIRON_KEY, Request

    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "RAW_URI": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in headers.items():
        environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
        if "_" in name and name.startswith("x-amz-meta-"):
            # moto keeps how these are written.
            preserved = environ.setdefault(PRESERVED_HEADER_NAMES_ENVIRON_KEY, {})
            preserved[f"HTTP_{name.upper().replace('-', '_')}"] = name
    environ["HTTP_HOST"] = host
    environ["CONTENT_LENGTH"] = str(len(body))
    environ.pop("HTTP_CONTENT_LENGTH", None)
    if (content_type := environ.pop("HTTP_CONTENT_TYPE", None)) is not None:
        environ["CONTENT_TYPE"] = content_type
    # Not populated: the environment would refer to the request, and this cycle would hold the body until the garbage
    # collector runs.
    request = Request(environ, populate_request=False)
    # werkzeug's cached properties, filled with what it would compute from the whole environment at every request.
    kept = request.__dict__
    kept["root_url"] = _root_url(host)
    content_type = environ.get("CONTENT_TYPE", "")
    if "form" not in content_type and "HTTP_CONTENT_ENCODING" not in environ:
        kept["form"] = kept["files"] = _no_fields()
        kept["_cached_data"] = body
    return request


@functools.lru_cache(64)
def _root_url(host: str) -> str:
    from moto.core.request import Request

    environ: dict[str, Any] = {"HTTP_HOST": host, "SCRIPT_NAME": "", "wsgi.url_scheme": "http"}
    environ |= {"SERVER_NAME": "127.0.0.1", "SERVER_PORT": "80", "REQUEST_METHOD": "GET"}
    return str(Request(environ, populate_request=False).root_url)


@functools.cache
def _no_fields() -> Any:
    from werkzeug.datastructures import ImmutableMultiDict

    return ImmutableMultiDict()


def _moto_request(request: HttpRequest) -> Any:
    headers = request.headers
    if "transfer-encoding" in headers:
        headers = {name: value for name, value in headers.items() if name != "transfer-encoding"}
    host = headers.get("host", "localhost")
    return moto_request(request.method, host, request.path, request.query, headers, request.body)


def parse_request(service: str, request: HttpRequest) -> tuple[str, dict[str, Any]]:
    """Return the operation and its input. Raises AwsError when there is no such operation."""
    check_form(request)
    model = _model(service)
    # After moto, which imports it too: see `headrace.aws.protocols.moto_imports`.
    from werkzeug.exceptions import HTTPException

    moto_request = _moto_request(request)
    url_params: Mapping[str, Any] = {}
    if model.protocol == "query":
        name = moto_request.values.get("Action", "")
        if name not in model.operation_names:
            raise AwsError(
                "InvalidAction",
                f"Could not find operation {name} for version {model.api_version}",
            )
        operation = model.operation_model(name)
    else:
        try:
            operation, url_params = _router(service).match(moto_request)
        except (HTTPException, NotImplementedError) as error:
            action = moto_request.values.get("Action", "")
            where = action or f"{request.method} {request.path}"
            raise unknown_operation(where, service) from error
    if model.protocol != "rest-json":
        return operation.name, _parse(operation, moto_request, url_params, moto_request.data)
    # moto's JSON parser accepts any type for any member and ignores bad JSON, so headrace decodes the body.
    parsed = _parse(operation, moto_request, url_params, b"")
    # moto returns a list that the query does not have as an empty list.
    params = {name: value for name, value in parsed.items() if value != []}
    params.update(decode_rest_json(service, operation.name, request.body))
    return operation.name, params


def is_rest(service: str) -> bool:
    """Return whether a service's requests name their operations by method and path. Raises UnknownServiceError."""
    return str(_model(service).protocol).startswith("rest-")


def operation_name(service: str, request: HttpRequest) -> str:
    """Return the operation that method and path mean; empty when there is none."""
    router = _router(service)
    from werkzeug.exceptions import HTTPException

    try:
        operation, _ = router.match(_moto_request(request))
    except (HTTPException, NotImplementedError, ValueError):
        return ""
    return str(operation.name)


def _parse(
    operation: Any, moto_request: Any, url_params: Mapping[str, Any], body: bytes
) -> dict[str, Any]:
    from moto.core.parse import PROTOCOL_PARSERS, UNDEFINED

    parser = PROTOCOL_PARSERS[operation.service_model.protocol](operation)
    try:
        parsed = parser.parse(
            {
                "method": moto_request.method,
                "values": moto_request.values,
                "headers": moto_request.headers,
                "body": body,
                "url_path": moto_request.path,
                "url_params": url_params,  # pyrefly: ignore[bad-assignment]
            }
        )
    except Exception as error:
        # moto's parsers trust the request: any exception means that the request is malformed.
        raise AwsError("SerializationException", "Could not parse the request") from error
    if _holds(parsed, UNDEFINED):  # a key of a map without its value
        raise AwsError("SerializationException", "Could not parse the request")
    return {name: value for name, value in parsed.items() if value is not None}


def _holds(value: Any, searched: object) -> bool:
    """Whether `searched` is anywhere in a value."""
    if isinstance(value, dict):
        return any(_holds(item, searched) for item in cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        return any(_holds(item, searched) for item in cast("list[Any]", value))
    return value is searched


def serialize_output(
    service: str,
    operation: str,
    output: Mapping[str, Any] | None,
    request_id: str,
    protocol: str = "",
) -> HttpResponse:
    """Return the response of a successful operation, by the service's first protocol unless another is named."""
    values = dict(output or {})
    response = _response(_serializer(service, operation, request_id, protocol).serialize(values))
    status = values.get(_status_member(service, operation))
    if status is not None:
        response.status = int(status)
    return response


@functools.cache
def _status_member(service: str, operation: str) -> str:
    """Return the member of an operation's output that is the HTTP status; empty when there is none."""
    shape = _model(service).operation_model(operation).output_shape
    members: Mapping[str, Any] = {} if shape is None else shape.members
    status_names = (
        n for n, one in members.items() if one.serialization.get("location") == "statusCode"
    )
    return next(status_names, "")


def serialize_error(
    service: str, operation: str | None, error: AwsError, request_id: str, protocol: str = ""
) -> HttpResponse:
    """Return the response of a failed operation; `operation` is None when it is unknown.

    Written by hand: moto looks the code up in the model, and most of AWS's codes are in no model.
    """
    protocol = protocol or _model(service).protocol
    if protocol == "rest-json":
        body = json.dumps(_json_error(service, error)).encode()
        headers = [("Content-Type", "application/json"), ("x-amzn-ErrorType", error.code)]
        return HttpResponse(error.status, headers, body)
    fields = {"Code": error.code, "Message": error.message, **error.members}
    if protocol == "rest-xml":
        fields |= {"RequestId": request_id, "HostId": "headrace"}
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{_elements(fields)}</Error>'
    else:
        kind = "Sender" if error.status < 500 else "Receiver"
        namespace = _model(service).metadata.get("xmlNamespace", "")
        text = (
            f'<ErrorResponse xmlns="{namespace}"><Error><Type>{kind}</Type>{_elements(fields)}</Error>'
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
    # A client's text may hold a lone surrogate, which XML cannot hold.
    body = text.encode("utf-8", "replace")
    return HttpResponse(error.status, [("Content-Type", "application/xml")], body)


def _json_error(service: str, error: AwsError) -> dict[str, Any]:
    """Return the body of an error, with `message` or `Message` as the error's shape names it."""
    named = _error_members(service, error.code)
    name = "Message" if "Message" in named else "message"
    body = {name: error.message or None, **error.members}
    if "Type" not in named:
        body.pop("Type", None)
    return body


@functools.cache
def _error_members(service: str, code: str) -> frozenset[str]:
    from botocore.model import NoShapeFoundError

    try:
        shape: Any = _model(service).shape_for(code)
    except NoShapeFoundError:
        return frozenset()
    return frozenset(shape.members)


# Control characters cannot be in XML at all, escaped or not.
_CONTROLS = {code: "?" for code in range(ord(" ")) if code not in b"\t\n\r"}
_WITHOUT_CONTROLS = bytes(ord("?") if byte in _CONTROLS else byte for byte in range(256))


def _elements(fields: Mapping[str, Any]) -> str:
    return "".join(
        f"<{name}>{escape(str(value).translate(_CONTROLS))}</{name}>"
        for name, value in fields.items()
    )


def without_controls(body: bytes, content_type: str) -> bytes:
    """Return an answer's body; in XML, control characters become `?`, since no XML parser accepts them."""
    return body.translate(_WITHOUT_CONTROLS) if "xml" in content_type else body


def _serializer(service: str, operation: str, request_id: str, protocol: str) -> Any:
    model = _model(service)
    from moto.core.serialize import SerializationContext, get_serializer_class

    serializer_class = get_serializer_class(service, protocol or model.protocol)
    return serializer_class(
        model.operation_model(operation), context=SerializationContext(request_id)
    )


def _response(parts: Any) -> HttpResponse:
    text = parts["body"]
    body = text.encode("utf-8", "replace") if isinstance(text, str) else bytes(text)
    headers = [(str(name), str(value)) for name, value in parts["headers"].items()]
    kind = next((value for name, value in headers if name.lower() == "content-type"), "")
    return HttpResponse(
        status=int(parts["status_code"]), headers=headers, body=without_controls(body, kind)
    )


class Unreadable(Exception):
    """The request is for no operation, or its parameters cannot be read.

    Attributes:
        refusal: the error that AWS answers, or, when that cannot be told, a denial.
    """

    def __init__(self, refusal: AwsError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def operation_of(service: str, request: HttpRequest) -> tuple[str, dict[str, Any]]:
    """Return the operation of a request and its parameters. Raises Unreadable.

    `service` is botocore's name of it.
    """
    try:
        target = request.headers.get("x-amz-target")
        if target is None or is_rest(service):
            return parse_request(service, request)
        operation = target.rpartition(".")[2]
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        return operation, codec_json.decode_input(service, operation, request.body, content_type)
    except AwsError as error:
        raise Unreadable(error) from error
    except (UnknownServiceError, OperationNotFoundError) as error:
        sentence = f"headrace cannot tell which permission this request needs ({error})"
        raise Unreadable(AwsError("AccessDeniedException", sentence, 403)) from error
