"""moto behind the gateway: one of moto's two doors.

State is moto's, in memory, and is rebuilt from the journal after a restart. Requests that may change state
run one at a time, so that the journal's order is the order in which they ran; reads run beside them.
moto is imported when first needed (or by `warm_up`), so a cloud is healthy before it.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qs

import botocore.session
from botocore.awsrequest import AWSResponse
from botocore.config import Config as BotocoreConfig
from botocore.exceptions import ClientError

from headrace.aws.access_keys import AccessKey
from headrace.aws.body_bounds import check_body
from headrace.aws.errors import AwsError
from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.moto_imports import IMPORTING, load_moto
from headrace.aws.sessions import RoleSessions
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.fallback.access_keys import find_access_key
from headrace.fallback.client_patterns import guard_patterns
from headrace.fallback.function_targets import FunctionTarget, deliver_nowhere, deliver_to
from headrace.fallback.journal import Entry, Journal
from headrace.fallback.long_poll import is_long_poll, wait_for_messages
from headrace.fallback.queue_peek import queue_is_empty
from headrace.fallback.session_identity import answer_of_session

log = logging.getLogger(__name__)

# Where the host name on AWS is not the signature scope's name.
SCOPE_TO_HOST = {"ecr": "api.ecr", "cloudwatch": "monitoring", "stepfunctions": "states"}
# Hosts without a region in their name.
GLOBAL_HOSTS = frozenset({"iam", "route53", "cloudfront", "organizations"})

READ_ONLY = re.compile(
    r"^(Get|List|Describe|Head|BatchGet|Query|Scan|Filter|Lookup|Search|Simulate|Validate|Verify"
    r"|Decrypt|Encrypt|GenerateDataKey|GenerateRandom|BatchCheck|CheckIfPhone|ReEncrypt|Sign"
    r"|TestEventPattern|StartQuery|ReceiveMessage)"
)
# High-rate and worthless after a restart: kept in memory only, as the README's table says.
NOT_JOURNALLED = frozenset({"PutMetricData", "PutLogEvents"})


class MotoServices:
    """All of moto's services. Thread-safe."""

    def __init__(
        self, *, journal: Journal, clock: Clock, ids: Ids, endpoint_host: str = "127.0.0.1:4566"
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._ids = ids
        self.endpoint_host = endpoint_host
        self._lock = threading.RLock()
        self._ready = threading.Event()
        self._clients: dict[tuple[str, str, str], Any] = {}
        self._client_lock = threading.Lock()
        self._message_arrived = threading.Condition()
        # Whose temporary credentials moto does not know; set before the first request.
        self.sessions: RoleSessions | None = None
        # Who invokes functions that topics and rules have for targets; set before the first request.
        self.function_target: FunctionTarget | None = None

    # --- loading ------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether moto is loaded and the journal replayed."""
        return self._ready.is_set()

    def warm_up(self) -> None:
        """Load moto and replay the journal, once; later calls wait for the first."""
        if self._ready.is_set():
            return
        with self._lock:
            if self._ready.is_set():
                return
            guard_patterns()
            load_moto()
            from moto.core.config import default_user_config

            # AWS's own policies (AdministratorAccess, ...) are there from the start, as on AWS.
            iam: Any = cast("Any", default_user_config)["iam"]
            iam["load_aws_managed_policies"] = True
            self._reset()
            deliver_nowhere()
            failed = 0
            for entry in self._journal:
                status = self._run_entry(entry).status
                failed += status >= 500
            if failed:
                log.error("%d journalled requests failed when replayed", failed)
            if self.function_target is not None:
                deliver_to(self.function_target, self._clock)
            self._ready.set()

    @staticmethod
    def _reset() -> None:
        """Empty moto: it is global in a process, and this cloud may not be the first in it."""
        from moto.core.base_backend import BackendDict

        backends: Any = BackendDict
        for backend in list(backends._instances):  # noqa: SLF001 - as moto's own mock_aws does
            backend.reset()

    # --- requests -----------------------------------------------------------------------------

    def handle(self, request: HttpRequest, service: str) -> HttpResponse:
        """See `headrace.aws.gateway.Fallback.handle`."""
        self.warm_up()
        check_body(request)
        assert request.call is not None
        host = _host(request, service, request.call.region)
        entry = Entry(
            method=request.method,
            url=f"https://{host}{request.path}" + (f"?{request.query}" if request.query else ""),
            headers={
                **{k: v for k, v in request.headers.items() if k != "transfer-encoding"},
                "host": self.endpoint_host,
                "x-moto-account-id": request.call.account,
            },
            body=request.body,
            # Of as many bits as SQLite keeps: the secrets of access keys come from it.
            seed=int.from_bytes(self._ids.bytes(8), "big") >> 1,
        )
        operation = _operation(request)
        if service == "sts" and operation == "GetCallerIdentity" and self.sessions is not None:
            answer = answer_of_session(self.sessions, request)
            if answer is not None:
                return answer
        if is_long_poll(entry, operation):
            return wait_for_messages(
                entry, self._message_arrived, self._clock, self._run_journalled_if_filled
            )
        return self._run(entry, operation)

    def _run(self, entry: Entry, operation: str) -> HttpResponse:
        if operation == "ReceiveMessage":
            return self._run_journalled_if_filled(entry)
        if READ_ONLY.match(operation) or operation in NOT_JOURNALLED:
            return self._run_entry(entry)
        with self._lock:
            response = self._run_entry(entry)
            if response.status < 400:
                self._journal.append(entry)
        if operation.startswith(("SendMessage", "Publish")):
            with self._message_arrived:
                self._message_arrived.notify_all()
        return response

    def _run_journalled_if_filled(self, entry: Entry) -> HttpResponse:
        """Receive messages: what was handed out changes state, an empty answer does not."""
        with self._lock:
            response = self._run_entry(entry)
            if response.status < 400 and b"ReceiptHandle" in cast("bytes", response.body):
                self._journal.append(entry)
            return response

    def _run_entry(self, entry: Entry) -> HttpResponse:
        from moto.core.request import Request
        from moto.moto_api._internal import mock_random
        from werkzeug.exceptions import HTTPException

        match_url = entry.url.partition("?")[0]
        method = _method_for(match_url)
        if method is None:
            raise AwsError(
                "UnknownOperationException",
                f"headrace has no service for {match_url.split('/')[2]}",
            )
        # Queue URLs and the like are made from the request's host: they must lead back here.
        url = re.sub(r"^https://[^/]+", f"http://{self.endpoint_host}", entry.url)
        request = Request.from_primitives(entry.method, url, entry.headers, entry.body)
        mock_random.seed(entry.seed)
        try:
            status, headers, body = method(request, request.raw_url, request.headers)
        except HTTPException as error:
            status = error.code or 500
            headers, body = dict(error.get_headers()), error.get_body()
        except NotImplementedError as error:
            raise AwsError(
                "UnknownOperationException", f"moto does not implement {error}", 501
            ) from error
        return HttpResponse(
            int(status),
            [(str(k), str(v)) for k, v in headers.items() if k.lower() != "content-length"],
            body.encode() if isinstance(body, str) else bytes(body or b""),
        )

    def account_of(self, access_key: str) -> str | None:
        """See `headrace.aws.gateway.Fallback.account_of`."""
        if not self._ready.is_set() or not access_key.startswith(("AKIA", "ASIA", "LSIA")):
            return None
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.iam.models import get_account_id_from

        account = str(get_account_id_from(access_key))
        return None if account == DEFAULT_ACCOUNT_ID else account

    def queue_is_empty(self, account: str, region: str, name: str) -> bool:
        """Whether a queue has nothing to receive now, or moto is not loaded yet. Raises LookupError."""
        return not self._ready.is_set() or queue_is_empty(account, region, name)

    def access_key(self, key_id: str) -> AccessKey | None:
        """Return a key that IAM or STS has made; None when there is none. Waits until moto is loaded."""
        self.warm_up()
        return find_access_key(key_id)

    # --- calls in process ---------------------------------------------------------------------

    def call(
        self, service: str, operation: str, params: Mapping[str, Any], *, account: str, region: str
    ) -> dict[str, Any]:
        """See `headrace.aws.gateway.Fallback.call`."""
        client = self._client(service, account, region)
        method = _client_methods(service).get(operation)
        if method is None:
            raise AwsError("UnknownOperationException", f"{service} has no operation {operation}")
        try:
            output = getattr(client, method)(**params)
        except ClientError as error:
            details = cast("dict[str, Any]", error.response)
            raise AwsError(
                details["Error"].get("Code", "InternalFailure"),
                details["Error"].get("Message", ""),
                details.get("ResponseMetadata", {}).get("HTTPStatusCode", 400),
            ) from error
        output.pop("ResponseMetadata", None)
        return cast("dict[str, Any]", output)

    def _client(self, service: str, account: str, region: str) -> Any:
        key = (service, account, region)
        with self._client_lock:
            client = self._clients.get(key)
            if client is None:
                client = self._clients[key] = _session().create_client(
                    service,
                    region_name=region,
                    aws_access_key_id=account,
                    aws_secret_access_key="headrace",
                    endpoint_url=f"http://{self.endpoint_host}",
                    config=BotocoreConfig(
                        retries={"total_max_attempts": 1}, parameter_validation=False
                    ),
                )
                client.meta.events.register_first(
                    "before-send.*",
                    functools.partial(self._send, service=service, account=account, region=region),
                )
            return client

    def _send(self, request: Any, service: str, account: str, region: str, **_: Any) -> AWSResponse:
        from headrace.aws.operation import Call

        http_request = http_request_of(request)
        http_request.call = Call(account, region, self._ids.uuid(), self._clock.now_ms(), service)
        scope = re.search(r"/([^/]+)/aws4_request", http_request.headers.get("authorization", ""))
        try:
            response = self.handle(http_request, scope.group(1) if scope else service)
        except AwsError as error:
            from headrace.aws import codec_json

            response = HttpResponse(
                error.status, [], codec_json.encode_error(error, codec_json.JSON_1_1)
            )
        return aws_response(request.url, response)


@functools.cache
def _session() -> Any:
    return botocore.session.Session()


@functools.cache
def _client_methods(service: str) -> dict[str, str]:
    from botocore import xform_name

    from headrace.aws.model import service_model

    return {name: xform_name(name) for name in service_model(service).operation_names}


def http_request_of(request: Any) -> HttpRequest:
    """Turn botocore's prepared request into ours."""
    path, _, query = request.url.split("://", 1)[1].partition("/")[2].partition("?")
    headers = {
        str(key).lower(): value.decode("latin-1") if isinstance(value, bytes) else str(value)
        for key, value in request.headers.items()
    }
    body = request.body
    if body is None:
        body = b""
    elif isinstance(body, str):
        body = body.encode()
    elif not isinstance(body, bytes | bytearray):
        body = body.read()
    return HttpRequest(request.method, f"/{path}", query, headers, bytes(body))


class _Raw:
    """A response body as botocore reads one."""

    def __init__(self, body: bytes) -> None:
        import io

        self._file = io.BytesIO(body)

    def stream(self, amt: int = 65536, **_: Any) -> Any:
        while chunk := self._file.read(amt):
            yield chunk

    def read(self, amt: int | None = None, **_: Any) -> bytes:
        return self._file.read(-1 if amt is None else amt)

    def close(self) -> None:
        self._file.close()


def aws_response(url: str, response: HttpResponse) -> AWSResponse:
    """Turn our response into botocore's; the body must be bytes."""
    from botocore.compat import HTTPHeaders

    headers = HTTPHeaders()
    for name, value in response.headers:
        headers[name] = value
    return AWSResponse(
        url, response.status, headers, cast("Any", _Raw(cast("bytes", response.body)))
    )


def _operation(request: HttpRequest) -> str:
    target = request.headers.get("x-amz-target")
    if target:
        return target.rpartition(".")[2]
    if request.path.startswith("/service/"):  # Smithy RPC v2: /service/<Name>/operation/<Operation>
        return request.path.rsplit("/", 1)[-1]
    for text in (
        request.query,
        request.body.decode("latin-1") if len(request.body) < 1 << 20 else "",
    ):
        action = parse_qs(text).get("Action") if "Action=" in text else None
        if action:
            return action[0]
    # A REST protocol: the method tells.
    return "Get" if request.method in ("GET", "HEAD") else request.method.title()


def _host(request: HttpRequest, service: str, region: str) -> str:
    host = SCOPE_TO_HOST.get(service, service)
    if host in GLOBAL_HOSTS:
        return f"{host}.amazonaws.com"
    return f"{host}.{region}.amazonaws.com"


@functools.cache
def _url_table(service: str) -> list[tuple[re.Pattern[str], Any]]:
    import moto.backends
    from moto.core.base_backend import BackendDict
    from moto.core.models import DEFAULT_ACCOUNT_ID

    backends: Any = moto.backends.get_backend(cast("Any", service))
    if isinstance(backends, BackendDict):
        of_account: Any = backends[DEFAULT_ACCOUNT_ID]
        backend = of_account["us-east-1" if "us-east-1" in of_account else "aws"]
    else:
        backend = backends["global"]
    return [(re.compile(url), method) for url, method in backend.urls.items()]


@functools.lru_cache(maxsize=4096)
def _method_for(url: str) -> Any:
    """Return moto's function for a URL on AWS, or None."""
    from moto import backend_index

    for service, pattern in backend_index.backend_url_patterns:
        if pattern.match(url):
            # A service's own modules are imported at its first request.
            with IMPORTING:
                table = _url_table(service)
            for path_pattern, method in table:
                if path_pattern.match(url):
                    return method
    return None
