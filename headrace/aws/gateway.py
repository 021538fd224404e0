"""From a request to a service's operation and back.

One `Gateway` serves the socket (`handle`), tests (the same, in process) and services calling each other's
control plane (`call`). Which service: the signature's scope, then `X-Amz-Target`, then path and host.
A service is owned whole or not at all: what an owned service has not built answers UnknownOperationException
and never falls through to moto. Thread-safe.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

from botocore.model import OperationNotFoundError

from headrace.aws import codec_json, codec_moto, presigned
from headrace.aws.auth_errors import wording_of
from headrace.aws.authentication import Authentication
from headrace.aws.errors import (
    AwsError,
    internal_failure,
    serialization_error,
    unknown_operation,
)
from headrace.aws.fault_injection import answer_with_faults
from headrace.aws.faults import Faults
from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.model import operation_model, service_model
from headrace.aws.operation import Action, Call
from headrace.aws.refusals import error_answer
from headrace.aws.service import RawAnswer, ServiceApi
from headrace.aws.sessions import KEY_PREFIX, RoleSessions, token_of
from headrace.aws.validate import validate
from headrace.core.clock import Clock
from headrace.core.ids import Ids

log = logging.getLogger(__name__)

# Where the name in the signature's scope is not botocore's name of the service.
SCOPE_TO_SERVICE = {
    "elasticmapreduce": "emr",
    "monitoring": "cloudwatch",
    "states": "stepfunctions",
    "email": "ses",
    "s3express": "s3",
    "cloudcontrolapi": "cloudcontrol",
}
TARGET_TO_SERVICE = {
    "Kinesis_20131202": "kinesis",
    "Firehose_20150804": "firehose",
    "ElasticMapReduce": "emr",
}


MOST_ACCOUNTS_KEPT = 10_000


class Fallback(Protocol):
    """The services that headrace does not own."""

    def handle(self, request: HttpRequest, service: str) -> HttpResponse:
        """Answer a request to `service` (the signature scope's name)."""
        ...

    def call(
        self, service: str, operation: str, params: Mapping[str, Any], *, account: str, region: str
    ) -> dict[str, Any]:
        """Run an operation in process. Raises AwsError."""
        ...

    def account_of(self, access_key: str) -> str | None:
        """Return the account that a temporary or user key belongs to, when known."""
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """Who signed: the parts of a request's credential scope, empty where there is none."""

    access_key: str = ""
    region: str = ""
    service: str = ""


@functools.lru_cache(maxsize=1024)
def _parse_scope(credential: str) -> Scope:
    parts = credential.split("/")
    if len(parts) != 5:
        return Scope()
    return Scope(parts[0], parts[2], parts[3])


def scope_of(request: HttpRequest) -> Scope:
    """Return the credential scope from the Authorization header or a presigned query."""
    authorization = request.headers.get("authorization", "")
    _, found, rest = authorization.partition("Credential=")
    if found:
        return _parse_scope(rest.partition(",")[0].strip())
    if "X-Amz-Credential=" in request.query:
        return _parse_scope(unquote(request.query_params().get("X-Amz-Credential", "")))
    if authorization.startswith("AWS ") or "AWSAccessKeyId=" in request.query:
        return Scope(service="s3")
    return Scope()


def service_of_head(request: HttpRequest, scope: Scope) -> str | None:
    """Return botocore's name of the service that a request is for; None when only its body can tell."""
    if scope.service:
        return SCOPE_TO_SERVICE.get(scope.service, scope.service)
    target = request.headers.get("x-amz-target", "")
    if target:
        prefix = target.partition(".")[0]
        return TARGET_TO_SERVICE.get(prefix, prefix.partition("_")[0].lower())
    if request.path.startswith(("/2015-03-31/", "/2018-10-31/", "/2017-03-31/")):
        return "lambda"
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return None
    return "s3"


class Gateway:
    """Routes requests to owned services and to the fallback."""

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        account: str,
        region: str,
        fallback: Fallback,
        authentication: Authentication | None = None,
        sessions: RoleSessions | None = None,
    ) -> None:
        self._authentication = authentication
        self._sessions = sessions
        self._clock = clock
        self._ids = ids
        self._account = account
        self._region = region
        self._fallback = fallback
        self.faults = Faults(ids)
        self._services: dict[str, _Owned] = {}
        self._accounts: dict[str, str] = {}
        # Request ids need to be unlike, not unguessable: a random start and a counter cost nothing.
        prefix = ids.hex(20)
        self._request_prefix = f"{prefix[:8]}-{prefix[8:12]}-{prefix[12:16]}-{prefix[16:]}-"
        self._request_count = 0

    def register(self, api: ServiceApi) -> None:
        """Add an owned service. That its actions fit AWS's model is held by `check_api`, in a test."""
        self._services[api.name] = _Owned(api)

    @property
    def owned(self) -> dict[str, ServiceApi]:
        """The owned services by botocore's name."""
        return {name: owned.api for name, owned in self._services.items()}

    # --- requests -----------------------------------------------------------------------------

    def service_of(self, request: HttpRequest, scope: Scope) -> str:
        """Return botocore's name of the service that `request` is for."""
        return service_of_head(request, scope) or _query_service(request.body)

    def is_inline(self, request: HttpRequest) -> bool:
        """Whether the request never blocks and may run on the event loop's thread."""
        target = request.headers.get("x-amz-target")
        if target is None or self.faults.is_slow:
            return False
        prefix, _, operation = target.rpartition(".")
        owned = self._services.get(TARGET_TO_SERVICE.get(prefix, ""))
        if owned is None or operation not in owned.api.inline:
            return False
        authentication = self._authentication
        return authentication is None or authentication.is_quick(scope_of(request).access_key)

    def refusal_of(self, request: HttpRequest) -> HttpResponse | None:
        """Return the refusal of a request of which only the head has come; None to go on. Never blocks.

        Without `--auth` nothing is refused so early, nor what only the body says the service of.
        """
        scope = scope_of(request)
        service = service_of_head(request, scope)
        if self._authentication is None or service is None:
            return None
        try:
            self._authentication.verify_head(request, service, self._clock.now_ms())
        except AwsError as error:
            return error_answer(request, service, error, self._call(scope, service, {}).request_id)
        return None

    def handle(self, request: HttpRequest) -> HttpResponse | Future[HttpResponse]:
        """Answer a request; never raises. An answer may have `waits`, or be a Future of one."""
        scope = scope_of(request)
        service = service_of_head(request, scope) or _query_service(request.body)
        call = self._call(scope, service, request.headers)
        request.call = call
        is_session = scope.access_key.startswith(KEY_PREFIX)
        if self._authentication is not None or request.query or is_session:
            refusal = self._refusal(request, call)
            if refusal is not None:
                return refusal
        owned = self._services.get(service)
        if self.faults.rules and self.faults.concerns(service):
            answer = answer_with_faults(
                self.faults,
                self._clock,
                None if owned is None else owned.api,
                request,
                call,
                functools.partial(self._answer, owned, request, call),
            )
        else:
            answer = self._answer(owned, request, call)
        if owned is None:
            return answer
        if isinstance(answer, HttpResponse):
            answer.headers.append(("x-amzn-RequestId", call.request_id))
        else:
            # Runs before whoever waits for the Future is told.
            answer.add_done_callback(functools.partial(_add_request_id, call.request_id))
        return answer

    def _refusal(self, request: HttpRequest, call: Call) -> HttpResponse | None:
        """Refuse what is wrongly signed, or not signed; without `--auth`, what is good no more.

        That is presigned URLs and roles' credentials after their time.
        """
        try:
            if call.service == "s3" and request.method == "OPTIONS":
                pass  # browsers ask S3 what they may do without signing
            elif self._authentication is None:
                presigned.check(request, wording_of(request, call.service), call.now_ms)
                self._check_session(request, call)
            else:
                key = self._authentication.verify(request, call.service, call.now_ms)
                call.account = key.account or call.account
        except AwsError as error:
            answer = error_answer(request, call.service, error, call.request_id)
            answer.headers.append(("x-amzn-RequestId", call.request_id))
            return answer
        return None

    def _answer(
        self, owned: _Owned | None, request: HttpRequest, call: Call
    ) -> HttpResponse | Future[HttpResponse]:
        if owned is None:
            return self._handle_fallback(request, call.service)
        return owned.answer(request, call)

    def _handle_fallback(self, request: HttpRequest, service: str) -> HttpResponse:
        assert request.call is not None
        try:
            return self._fallback.handle(request, service)
        except AwsError as error:
            return HttpResponse(
                error.status,
                [("Content-Type", codec_json.JSON_1_1)],
                codec_json.encode_error(error, codec_json.JSON_1_1),
            )
        except Exception:
            log.exception("%s failed in moto", service)
            error = internal_failure()
            return HttpResponse(
                error.status,
                [("Content-Type", codec_json.JSON_1_1)],
                codec_json.encode_error(error, codec_json.JSON_1_1),
            )

    def _call(
        self, scope: Scope, service: str, headers: Mapping[str, str], operation: str = ""
    ) -> Call:
        self._request_count += 1
        # In order: names cost something too, on every request.
        return Call(
            self.account_of(scope.access_key),
            scope.region or self._region,
            f"{self._request_prefix}{self._request_count:012x}",
            self._clock.now_ms(),
            service,
            operation,
            scope.access_key,
            headers,
        )

    def _check_session(self, request: HttpRequest, call: Call) -> None:
        """Refuse credentials of a role's session that have expired, or whose token is another's. Raises AwsError."""
        sessions = self._sessions
        if sessions is None or sessions.account_of(call.access_key) is None:
            return
        session = sessions.find(call.access_key, token_of(request))
        if session is None:
            raise wording_of(request, call.service).wrong_token()
        if call.now_ms >= session.expires_ms:
            raise wording_of(request, call.service).expired_token()

    def account_of(self, access_key: str) -> str:
        """Return the account of an access key: itself when it is 12 digits, else as its session or STS knows it."""
        if not access_key:
            return self._account
        known = self._accounts.get(access_key)
        if known is not None:
            return known
        if len(access_key) == 12 and access_key.isdigit():
            account = access_key
        else:
            account = None if self._sessions is None else self._sessions.account_of(access_key)
            account = account or self._fallback.account_of(access_key)
        if account is None:
            return self._account  # not kept: STS may come to know it
        if len(self._accounts) >= MOST_ACCOUNTS_KEPT:
            # Keys of sessions come and go for as long as a cloud runs.
            self._accounts.clear()
        self._accounts[access_key] = account
        return account

    # --- calls in process ---------------------------------------------------------------------

    def call(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        account: str | None = None,
        region: str | None = None,
    ) -> dict[str, Any]:
        """See `headrace.core.ports.ControlPlane.call`."""
        owned = self._services.get(service)
        if owned is None:
            return self._fallback.call(
                service,
                operation,
                params,
                account=account or self._account,
                region=region or self._region,
            )
        scope = Scope(account or self._account, region or self._region, service)
        made = self._call(scope, service, {}, operation)
        output = owned.run(operation, params, made)
        for wait in made.waits:
            wait.result()
        return output


def _add_request_id(request_id: str, answer: Future[HttpResponse]) -> None:
    if answer.exception() is None:
        answer.result().headers.append(("x-amzn-RequestId", request_id))


def _query_service(body: bytes) -> str:
    version = {
        b"Version=2010-05-15": "cloudformation",
        b"Version=2011-06-15": "sts",
        b"Version=2010-05-08": "iam",
        b"Version=2012-11-05": "sqs",
        b"Version=2010-03-31": "sns",
    }
    return next((name for marker, name in version.items() if marker in body), "s3")


class _Owned:
    """An owned service behind the generic path: parse, validate, run, serialise."""

    def __init__(self, api: ServiceApi) -> None:
        self.api = api
        self._actions: dict[str, Action] = api.by_name()
        self._answer_protocol: Callable[[HttpRequest, Call], HttpResponse] | None = None

    @functools.cached_property
    def _protocol(self) -> str:
        return str(service_model(self.api.name).metadata["protocol"])

    def answer(self, request: HttpRequest, call: Call) -> HttpResponse | Future[HttpResponse]:
        if self.api.raw is not None:
            answer = self._raw(request)
            if isinstance(answer, HttpResponse) and call.waits:
                return self._once_done(answer, request, call)
            if answer is not None:
                return answer
        try:
            if self._protocol == "json":
                response = self._answer_json(request, call)
            else:
                response = self._answer_moto_codec(request, call)
            return self._once_done(response, request, call) if call.waits else response
        except Exception:
            log.exception("a request to %s failed outside its operation", self.api.name)
            return self._failure(request, call)

    def _once_done(self, response: HttpResponse, request: HttpRequest, call: Call) -> HttpResponse:
        def failure() -> HttpResponse:
            failed = self._failure(request, call)
            failed.headers.append(("x-amzn-RequestId", call.request_id))
            return failed

        response.waits, response.failure = call.waits, failure
        return response

    def _failure(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Return the error of a defect of headrace, in the service's own form."""
        if self._protocol == "json":
            return self._json_error(internal_failure(), request)
        return codec_moto.serialize_error(self.api.name, None, internal_failure(), call.request_id)

    def _raw(self, request: HttpRequest) -> RawAnswer:
        assert self.api.raw is not None
        try:
            return self.api.raw(request)
        except Exception as error:  # noqa: BLE001 - the one place where errors become answers
            aws_error = self._aws_error(error, "raw request")
            if self._protocol == "json":
                return self._json_error(aws_error, request)
            assert request.call is not None
            return codec_moto.serialize_error(
                self.api.name, None, aws_error, request.call.request_id
            )

    def run(self, operation: str, params: Mapping[str, Any], call: Call) -> dict[str, Any]:
        """Validate and run. Raises AwsError only."""
        action = self._actions.get(operation)
        if action is None:
            log.warning("%s:%s is not built", self.api.name, operation)
            raise unknown_operation(operation, self.api.name)
        try:
            if self._protocol != "rest-xml":
                validate(self.api.name, operation, params, code=self._validation_code)
            output = action(self.api.backend, call, params)
        except Exception as error:
            raise self._aws_error(error, operation) from error
        return dict(output) if output else {}

    @property
    def _validation_code(self) -> str:
        return "ValidationError" if self._protocol == "query" else "ValidationException"

    def _aws_error(self, error: Exception, operation: str) -> AwsError:
        if isinstance(error, AwsError):
            return error
        if isinstance(error, RecursionError):  # a document inside the request, such as a policy
            return serialization_error("The request is nested too deeply")
        translated = self.api.translate(error)
        if translated is not None:
            return translated
        log.error("%s:%s failed", self.api.name, operation, exc_info=error)
        return internal_failure()

    def _answer_json(self, request: HttpRequest, call: Call) -> HttpResponse:
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        operation = request.headers.get("x-amz-target", "").rpartition(".")[2]
        try:
            try:
                operation_model(self.api.name, operation)
            except OperationNotFoundError:
                raise unknown_operation(operation, self.api.name) from None
            if request.body_file is not None:
                raise AwsError("RequestEntityTooLargeException", "Request is too large", 413)
            params = codec_json.decode_input(self.api.name, operation, request.body, content_type)
            output = self.run(operation, params, call)
        except AwsError as error:
            return self._json_error(error, request)
        body = codec_json.encode_output(self.api.name, operation, output, content_type)
        return HttpResponse(200, [("Content-Type", _answer_type(content_type))], body)

    def _json_error(self, error: AwsError, request: HttpRequest) -> HttpResponse:
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        return HttpResponse(
            error.status,
            [("Content-Type", _answer_type(content_type)), ("x-amzn-ErrorType", error.code)],
            codec_json.encode_error(error, content_type),
        )

    def _answer_moto_codec(self, request: HttpRequest, call: Call) -> HttpResponse:
        operation: str | None = None
        try:
            if request.body_file is not None:
                raise AwsError("RequestEntityTooLargeException", "Request is too large", 413)
            operation, params = codec_moto.parse_request(self.api.name, request)
            output = self.run(operation, params, call)
            return codec_moto.serialize_output(self.api.name, operation, output, call.request_id)
        except AwsError as error:
            return codec_moto.serialize_error(self.api.name, operation, error, call.request_id)


def _answer_type(content_type: str) -> str:
    if codec_json.is_cbor(content_type):
        return codec_json.CBOR_1_1
    return (
        content_type if content_type.startswith("application/x-amz-json") else codec_json.JSON_1_1
    )


def check_api(api: ServiceApi) -> None:
    """Raise ValueError when a service declares operations that AWS does not have.

    Not at every start: loading six models takes a fifth of a second.
    """
    unknown = set(api.by_name()) - set(service_model(api.name).operation_names)
    if unknown:
        raise ValueError(f"{api.name} declares operations AWS does not have: {sorted(unknown)}")
    if not api.inline <= set(api.by_name()):
        raise ValueError(f"{api.name} answers operations inline that it does not have")
