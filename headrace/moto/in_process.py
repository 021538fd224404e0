"""Calls operations of moto's services inside the process, through botocore's clients without a socket.

Imported with the first call: botocore's clients are a tenth of what a cloud imports.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import io
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

import botocore
import botocore.session
import msgspec
from botocore import parsers
from botocore.awsrequest import AWSResponse
from botocore.config import Config as BotocoreConfig
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Call, loader, service_model
from headrace.aws.signatures.credential_scopes import scope_of
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.moto.current_cloud import ANSWERED
from headrace.moto.requests.quick import QuickCall, QuickCalls
from headrace.store.notes import NOW, answer_from


class InProcessCalls:
    """The clients for each service, account and region, created on first use. Thread-safe."""

    def __init__(
        self,
        handle: Callable[[HttpRequest, str], HttpResponse],
        ids: Ids,
        clock: Clock,
        endpoint_host: Callable[[], str],
        *,
        quick: QuickCalls,
        answer_quickly: Callable[[HttpRequest, QuickCall], HttpResponse | None],
    ) -> None:
        """`handle` answers a request to a service; `answer_quickly` one of the calls of `quick` in its plain form."""
        self._handle = handle
        self._quick, self._answer_quickly = quick, answer_quickly
        self._ids = ids
        self._clock = clock
        self._endpoint_host = endpoint_host

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
        client = _client(service, account, region, self._endpoint_host())
        method = _client_methods(service).get(operation)
        if method is None:
            raise AwsError("UnknownOperationException", f"{service} has no operation {operation}")
        outer, _CALLING.send = _CALLING.send, self._send
        try:
            if NOW.note is not None:
                with answer_from(functools.partial(_answer_so_far, service, operation)):
                    output = getattr(client, method)(**params)
            else:
                output = getattr(client, method)(**params)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise _unsendable(service, operation, params) or error from error
        except ClientError as error:
            details = cast("dict[str, Any]", error.response)
            raise AwsError(
                details["Error"].get("Code", "InternalFailure"),
                details["Error"].get("Message", ""),
                details.get("ResponseMetadata", {}).get("HTTPStatusCode", 400),
            ) from error
        finally:
            _CALLING.send = outer
        output.pop("ResponseMetadata", None)
        return cast("dict[str, Any]", output)

    def _send(self, request: Any, service: str, account: str, region: str) -> AWSResponse:
        http_request = http_request_of(request)
        http_request.call = Call(account, region, self._ids.uuid(), self._clock.now_ms(), service)
        response = self._handle(http_request, scope_of(http_request).service or service)
        return aws_response(request.url, response)


def _unsendable(service: str, operation: str, params: Mapping[str, Any]) -> AwsError | None:
    """Return why no client could send these parameters, with the sentence of AWS's SDKs; None if one could."""
    shape: Any = service_model(service).operation_model(operation).input_shape
    report: Any = ParamValidator().validate(dict(params), shape)
    if not report.has_errors():
        return None
    sentence = "; ".join(str(report.generate_report()).splitlines())
    return AwsError("ValidationException", f"Parameter validation failed: {sentence}")


class _Calling(threading.local):
    """The call that this thread's client is sending; calls nest."""

    send: Callable[..., AWSResponse] | None = None


_CALLING = _Calling()
_MAKING = threading.Lock()


def _client(service: str, account: str, region: str, host: str) -> Any:
    """Return a client that all clouds of this process share: creating one takes as long as three calls."""
    with _MAKING:
        return _make_client(service, account, region, host)


# A test run has an account for each test.
@functools.lru_cache(maxsize=100)
def _make_client(service: str, account: str, region: str, host: str) -> Any:
    client = _session().create_client(
        service,
        region_name=region,
        aws_access_key_id=account,
        aws_secret_access_key="headrace",
        endpoint_url=f"http://{host}",
        config=BotocoreConfig(
            retries={"total_max_attempts": 1},
            parameter_validation=False,
            # On AWS some operations have their own hosts, such as StartSyncExecution; here there is one host.
            inject_host_prefix=False,
            # botocore's own user agent would take a tenth of each request's time.
            user_agent="headrace",
        ),
    )

    def send(request: Any, **_: Any) -> AWSResponse:
        assert _CALLING.send is not None
        return _CALLING.send(request, service=service, account=account, region=region)

    def sign(request: Any, signing_name: str, region_name: str, **_: Any) -> None:
        name = request.context.get("signing", {}).get("signing_name", signing_name)
        request.headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={account}/20231114/{region_name}/{name}/aws4_request,"
            " SignedHeaders=host, Signature=0"
        )

    # Nothing verifies this signature: it names the account and the service, and computing one would double the time.
    client.meta.events.register_first("choose-signer.*", _choose_none)
    client.meta.events.register_first("before-sign.*", sign)
    client.meta.events.register_first("before-send.*", send)
    return client


def _choose_none(**_: Any) -> Any:
    return botocore.UNSIGNED


def _answer_so_far(service: str, operation: str) -> dict[str, Any] | None:
    """Return moto's answer to this thread's request as botocore parses it; None for a refusal."""
    from headrace.aws.calls.operation import service_model

    response = ANSWERED.response
    if response is None or response.status >= 300:
        return None
    model = service_model(service)
    raw = {
        "status_code": response.status,
        "headers": {name.lower(): value for name, value in response.headers},
        "body": response.body,
    }
    parser: Any = parsers.create_parser(str(model.resolved_protocol))
    read = parser.parse(raw, model.operation_model(operation).output_shape)
    read.pop("ResponseMetadata", None)
    return cast("dict[str, Any]", read)


@functools.cache
def _session() -> Any:
    session: Any = botocore.session.Session()
    session.register_component("data_loader", loader())
    return session


@functools.cache
def _client_methods(service: str) -> dict[str, str]:
    from botocore import xform_name

    from headrace.aws.calls.operation import service_model

    return {name: xform_name(name) for name in service_model(service).operation_names}


def http_request_of(request: Any) -> HttpRequest:
    """Convert botocore's prepared request to headrace's."""
    path, _, query = request.url.split("://", 1)[1].partition("/")[2].partition("?")
    written = [
        (str(key), value.decode("latin-1") if isinstance(value, bytes) else str(value))
        for key, value in request.headers.items()
    ]
    headers = {name.lower(): value for name, value in written}
    body = request.body
    if body is None:
        body = b""
    elif isinstance(body, str):
        body = body.encode()
    elif not isinstance(body, bytes | bytearray):
        body = body.read()
    return HttpRequest(request.method, f"/{path}", query, headers, bytes(body), head=written)


class _Raw:
    """A response body with the interface that botocore reads."""

    def __init__(self, body: bytes) -> None:
        self._file = io.BytesIO(body)

    def stream(self, amt: int = 65536, **_: Any) -> Any:
        while chunk := self._file.read(amt):
            yield chunk

    def read(self, amt: int | None = None, **_: Any) -> bytes:
        return self._file.read(-1 if amt is None else amt)

    def close(self) -> None:
        self._file.close()


def aws_response(url: str, response: HttpResponse) -> AWSResponse:
    """Convert headrace's response to botocore's; the body must be bytes."""
    raw = cast("Any", _Raw(cast("bytes", response.body)))
    # A client reads the first of two headers with one name.
    return AWSResponse(url, response.status, cast("Any", dict(reversed(response.headers))), raw)
