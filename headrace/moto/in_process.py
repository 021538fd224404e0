"""Calls operations of moto's services inside the process, without a socket and without a client.

What a client of botocore's does is done here by botocore's own parts: the handlers that change parameters, requests and
answers, the serializer and the parser. A client takes 20 ms to make, of each service, account and region.

Imported with the first call.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlencode

import msgspec
from botocore import parsers, serialize
from botocore.compat import HTTPHeaders
from botocore.model import OperationModel
from botocore.response import StreamingBody
from botocore.utils import EVENT_ALIASES, percent_encode_sequence
from botocore.validate import ParamValidator

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Call, operation_model, service_model
from headrace.aws.signatures.credential_scopes import scope_of
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.late_imports import imports_later
from headrace.moto.current_cloud import ANSWERED
from headrace.moto.requests.quick import QuickCall, QuickCalls
from headrace.store.notes import NOW, answer_from

# What handlers of clients and of the texts about them need, which is nearly all that this module imports (40 ms).
_OF_CLIENTS = (
    "args",
    "docs.utils",
    "endpoint_provider",
    "regions",
    "retryhandler",
    "signers",
    "translate",
)
with imports_later({"botocore.handlers": [f"botocore.{name}" for name in _OF_CLIENTS]}, late={}):
    from botocore import handlers

# These sign a URL for another region, which moto's services do not read.
_SIGNING = (handlers.inject_presigned_url_ec2, handlers.inject_presigned_url_rds)


class InProcessCalls:
    """Calls of operations by their names and parameters. Thread-safe."""

    def __init__(
        self,
        handle: Callable[[HttpRequest, str], HttpResponse],
        ids: Ids,
        clock: Clock,
        *,
        quick: QuickCalls,
        answer_quickly: Callable[[HttpRequest, QuickCall], HttpResponse | None],
    ) -> None:
        """`handle` answers a request to a service; `answer_quickly` one of the calls of `quick` in its plain form."""
        self._handle = handle
        self._quick, self._answer_quickly = quick, answer_quickly
        self._ids = ids
        self._clock = clock

    def call(
        self, service: str, operation: str, params: Mapping[str, Any], *, account: str, region: str
    ) -> dict[str, Any]:
        """Return an operation's output. Raises AwsError."""
        if NOW.note is None:
            # Nobody sees its request id.
            call = Call(account, region, "", self._clock.now_ms(), service)
            plain = self._quick.request_of(service, operation, params, call)
            answer = None if plain is None else self._answer_quickly(*plain)
            if answer is not None:
                return cast("dict[str, Any]", msgspec.json.decode(cast("bytes", answer.body)))
        if operation not in service_model(service).operation_names:
            raise AwsError("UnknownOperationException", f"{service} has no operation {operation}")
        try:
            if NOW.note is not None:
                with answer_from(functools.partial(_answer_so_far, service, operation)):
                    return self._ask(service, operation, params, account, region)
            return self._ask(service, operation, params, account, region)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise _unsendable(service, operation, params) or error from error

    def _ask(
        self, service: str, operation: str, params: Mapping[str, Any], account: str, region: str
    ) -> dict[str, Any]:
        model = operation_model(service, operation)
        http_request = _request(model, params, account, region)
        http_request.call = Call(account, region, self._ids.uuid(), self._clock.now_ms(), service)
        response = self._handle(http_request, scope_of(http_request).service or service)
        output = _read(model, response)
        if response.status >= 300:
            error = cast("dict[str, Any]", output["Error"])
            raise AwsError(
                error.get("Code", "InternalFailure"), error.get("Message", ""), response.status
            )
        return output


def _request(
    model: OperationModel, params: Mapping[str, Any], account: str, region: str
) -> HttpRequest:
    """Return the request that a client of botocore's would send.

    Nothing verifies its signature, which names the account and the service.
    """
    given = dict(params)
    _emit("before-parameter-build", model, params=given)
    serializer = serialize.create_serializer(_protocol(model), include_validation=False)
    made = cast("dict[str, Any]", serializer.serialize_to_request(given, model))
    _emit("before-call", model, params=made)
    path, _, query = str(made["url_path"]).partition("?")
    more = percent_encode_sequence(made["query_string"]) if made["query_string"] else ""
    body = made["body"]
    if isinstance(body, dict):
        body = urlencode(body, doseq=True)
    if not isinstance(body, str | bytes | bytearray):
        body = body.read()
    data = body.encode() if isinstance(body, str) else bytes(body)
    signed = f"{account}/20231114/{region}/{model.service_model.signing_name}/aws4_request"
    written = [
        *((str(name), str(value)) for name, value in made["headers"].items()),
        ("User-Agent", "headrace"),
        ("Authorization", f"AWS4-HMAC-SHA256 Credential={signed}, SignedHeaders=host, Signature=0"),
    ]
    if made["method"] not in ("GET", "HEAD", "OPTIONS"):
        written.append(("Content-Length", str(len(data))))
    headers = {name.lower(): value for name, value in written}
    query = "&".join(part for part in (query, more) if part)
    return HttpRequest(made["method"], path, query, headers, data, head=written)


def _read(model: OperationModel, response: HttpResponse) -> dict[str, Any]:
    """Return an answer as botocore reads it; that of a refusal has `Error`."""
    # A client reads the first of two headers with one name.
    headers = HTTPHeaders.from_dict(dict(reversed(response.headers)))
    body = cast("bytes", response.body)
    streams = response.status < 300 and model.has_streaming_output
    raw = {
        "status_code": response.status,
        "headers": headers,
        "body": StreamingBody(io.BytesIO(body), len(body)) if streams else body,
        "context": {"operation_name": model.name},
    }
    parser: Any = parsers.create_parser(_protocol(model))
    output = parser.parse(raw, model.output_shape)
    _emit("after-call", model, parsed=output, http_response=None)
    output.pop("ResponseMetadata", None)
    return cast("dict[str, Any]", output)


def _protocol(model: OperationModel) -> str:
    return str(model.service_model.resolved_protocol)


def _emit(event: str, model: OperationModel, **given: Any) -> None:
    """Let botocore's handlers of an event change what is given."""
    for handle in _list_handlers(event, model.service_model.service_id.hyphenize(), model.name):
        handle(model=model, context={}, **given)


@functools.lru_cache(maxsize=10_000)
def _list_handlers(event: str, service: str, operation: str) -> list[Callable[..., Any]]:
    """Return botocore's handlers of an event and an operation; they do not depend on each other's order."""
    found: list[Callable[..., Any]] = []
    for name, handler, *_ in handlers.BUILTIN_HANDLERS:
        of_event, *of = name.split(".")
        # Some are declared under their service's older name.
        meant = [EVENT_ALIASES.get(part, part) for part in of[:1]] + of[1:]
        asked = zip(meant, (service, operation), strict=False)
        if of_event == event and all(part in ("*", one) for part, one in asked):
            found.append(handler)
    return [handler for handler in found if handler not in _SIGNING]


def _unsendable(service: str, operation: str, params: Mapping[str, Any]) -> AwsError | None:
    """Return why no client could send these parameters, with the sentence of AWS's SDKs; None if one could."""
    shape: Any = service_model(service).operation_model(operation).input_shape
    report: Any = ParamValidator().validate(dict(params), shape)
    if not report.has_errors():
        return None
    sentence = "; ".join(str(report.generate_report()).splitlines())
    return AwsError("ValidationException", f"Parameter validation failed: {sentence}")


def _answer_so_far(service: str, operation: str) -> dict[str, Any] | None:
    """Return moto's answer to this thread's request as botocore parses it; None for a refusal."""
    response = ANSWERED.response
    if response is None or response.status >= 300:
        return None
    return _read(operation_model(service, operation), response)
