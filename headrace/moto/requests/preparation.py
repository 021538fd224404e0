"""Prepares a request for moto: converts it to moto's form, finds moto's function for it, and has it checked.

How requests name those of moto's services whose names differ from botocore's, and their faults on demand.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qs

import msgspec

from headrace.aws.calls.errors import AwsError, FaultErrors, unknown_operation
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.protocols import codec_moto
from headrace.aws.protocols.moto_imports import IMPORTING
from headrace.aws.protocols.service import Profile
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.aws.signatures.credential_scopes import SIGV4, scope_of
from headrace.core.ids import Ids
from headrace.moto.patches.kms import make_private_key
from headrace.moto.requests.checks import AnswerWithoutMoto, CheckStrictly, check_request
from headrace.moto.requests.kinds import Kind, kind_of
from headrace.moto.requests.models import model_of
from headrace.moto.storage.changes import CHANGES, MOTO_LOCK, package_of
from headrace.moto.storage.storage import Entry

PROFILES: Mapping[str, Profile] = {
    "cloudcontrol": Profile(signing_scopes=("cloudcontrolapi",)),
    # Users of pools and identities sign nothing.
    "cognito-identity": Profile(target_prefix="AWSCognitoIdentityService"),
    "cognito-idp": Profile(
        target_prefix="AWSCognitoIdentityProviderService",
        # The keys of a user pool's tokens; no bucket has such a name.
        path_pattern=r"/[a-z0-9-]+_[0-9A-Za-z]+/\.well-known/(jwks\.json|openid-configuration)",
    ),
    "cloudwatch": Profile(signing_scopes=("monitoring",)),
    "dynamodb": Profile(
        fault_errors=FaultErrors(
            throttle=(
                "ProvisionedThroughputExceededException",
                "The level of configured provisioned throughput for the table was exceeded.",
                400,
            ),
            error=("InternalServerError", "Internal server error", 500),
            callers_errors_are_400=True,
        )
    ),
    "iam": Profile(query_version="2010-05-08"),
    "redshift": Profile(signing_scopes=("redshift",), query_version="2012-12-01"),
    "ses": Profile(signing_scopes=("email",)),
    "sns": Profile(
        query_version="2010-03-31",
        # The link in each message (recorded: it has no Version).
        bare_queries=("Action=Unsubscribe&SubscriptionArn=",),
        # The certificate of notifications' signatures, which anybody may fetch.
        path_pattern=r"/SimpleNotificationService-[0-9a-f]+\.pem",
    ),
    "sqs": Profile(query_version="2012-11-05"),
    "stepfunctions": Profile(signing_scopes=("states",)),
    "sts": Profile(query_version="2011-06-15"),
}


# Services whose AWS host name differs from the signing scope.
SCOPE_TO_HOST = {
    "ecr": "api.ecr",
    "cloudwatch": "monitoring",
    # Both of its APIs answer there: the second one (sesv2) has the same scope, and paths of its own.
    "ses": "email",
    "stepfunctions": "states",
    "dynamodbstreams": "streams.dynamodb",
    "iotdata": "data-ats.iot",
    "memorydb": "memory-db",
    "opensearch": "es",
    "opensearchserverless": "aoss",
    "mobiletargeting": "pinpoint",
    # On AWS, the account's number is before it.
    "s3control": "0.s3-control",
    "payment-cryptography": "controlplane.payment-cryptography",
    "sagemaker": "api.sagemaker",
    "sagemaker-runtime": "runtime.sagemaker",
    "timestream": "ingest.timestream",
}
# Services that share a signing scope, told apart by their targets.
TARGET_TO_SERVICE = {"DynamoDBStreams_20120810": "dynamodbstreams"}
# Services that share a scope where only one has targets: without a target, the request is for the other.
WITHOUT_TARGET = {
    "sagemaker": "sagemaker-runtime",
    "servicecatalog": "servicecatalog-appregistry",
}
# Services whose signatures name an older service, or have a name of their own.
SCOPE_TO_SERVICE = {"aoss": "opensearchserverless"}
_OPENSEARCH_PATH = "/2021-01-01/"
# Hosts without a region in their name.
GLOBAL_HOSTS = frozenset({"budgets", "cloudfront", "iam", "route53"})


def service_of(request: HttpRequest, service: str) -> str:
    """Return botocore's name of the service that a request is for; `service` is only the name in its signature."""
    if service == "es" and request.path.startswith(_OPENSEARCH_PATH):
        return "opensearch"
    service = SCOPE_TO_SERVICE.get(service, service)
    target = request.headers.get("x-amz-target", "")
    if not target:
        return WITHOUT_TARGET.get(service, service)
    return TARGET_TO_SERVICE.get(target.partition(".")[0], service)


# What waits for an integration; no other call of a REST service does.
_TESTED_METHOD = re.compile(r"/restapis/[^/]+/resources/[^/]+/methods/[^/]+")


def operation_of(request: HttpRequest) -> str:
    """Return a request's operation; for a REST protocol, a guess by its method."""
    target = request.headers.get("x-amz-target")
    if target:
        return target.rpartition(".")[2]
    if request.path.startswith("/service/"):  # Smithy RPC v2: /service/<Name>/operation/<Operation>
        return request.path.rsplit("/", 1)[-1]
    is_form = "form" in request.headers.get("content-type", "") and len(request.body) < 1 << 20
    for text in (request.query, request.body.decode("latin-1") if is_form else ""):
        action = parse_qs(text).get("Action") if "Action=" in text else None
        if action:
            return action[0]
    if request.method == "POST" and _TESTED_METHOD.fullmatch(request.path):
        return "TestInvokeMethod"
    return "Get" if request.method in ("GET", "HEAD") else request.method.title()


def host_of(service: str, region: str) -> str:
    """Return a service's host on AWS, by which moto finds the service."""
    host = SCOPE_TO_HOST.get(service, service)
    if host in GLOBAL_HOSTS:
        return f"{host}.amazonaws.com"
    return f"{host}.{region}.amazonaws.com"


URL_TABLES: dict[str, list[tuple[re.Pattern[str], Any]]] = {}


def _url_table(service: str) -> list[tuple[re.Pattern[str], Any]]:
    """Return a service's patterns and functions; the first call imports its modules and loads its state."""
    table = URL_TABLES.get(service)
    if table is None:
        # The order of locks wherever both are held: loading state also imports.
        with MOTO_LOCK, IMPORTING:
            table = URL_TABLES[service] = _import_url_table(service)
    return table


def _import_url_table(service: str) -> list[tuple[re.Pattern[str], Any]]:
    import moto.backends
    from moto.core.base_backend import BackendDict

    backends: Any = moto.backends.get_backend(cast("Any", service))
    if isinstance(backends, BackendDict):
        kind: Any = backends.backend
        CHANGES.load_deferred(package_of(kind))
        # Its addresses need nothing of a backend but its class, and some take long to make.
        backend = object.__new__(kind)
    else:
        backend = backends["global"]
    assert backend.urls
    return [(re.compile(url), method) for url, method in backend.urls.items()]


@functools.lru_cache(maxsize=4096)
def method_for(url: str) -> tuple[str, Any] | None:
    """Return moto's package and function for an AWS URL without its query, or None."""
    from moto import backend_index

    for service, pattern in backend_index.backend_url_patterns:
        if pattern.match(url):
            for path_pattern, method in _url_table(service):
                if path_pattern.match(url):
                    return service, method
    return None


def has_service(url: str) -> bool:
    """Return whether moto has a service for an AWS URL's host, whatever its path."""
    from moto import backend_index

    return any(pattern.match(url) for _, pattern in backend_index.backend_url_patterns)


_NO_SDK = "make a client of the OpenAPI document that GetExport gives (openapi-generator does)"
# What to do instead of an operation that moto has no path for.
_INSTEAD = {
    ("apigateway", "FlushStageCache"): "a stage keeps no answers here, so none is stale",
    ("apigateway", "GetSdk"): _NO_SDK,
    ("apigateway", "GetSdkType"): _NO_SDK,
    ("apigateway", "GetSdkTypes"): _NO_SDK,
}


def _name_of_unknown(request: HttpRequest, service: str) -> str:
    """Return AWS's name of an operation that moto has no path for, or its method and path."""
    try:
        return codec_moto.operation_of(model_of(service, request), request)[0]
    except codec_moto.Unreadable:  # AWS's model of the service has no such path either
        return f"{request.method} {request.path}"


def _authorization_of(request: HttpRequest) -> dict[str, str]:
    """Return the Authorization header from which moto reads the caller; none for a request that nobody signed.

    moto looks for a key anywhere in it, so it gets no client's text.
    """
    scope = scope_of(request)
    if not scope.access_key:
        return {}
    credential = "/".join(
        (scope.access_key, scope.date, scope.region, scope.service, "aws4_request")
    )
    return {"authorization": f"{SIGV4} Credential={credential}, SignedHeaders=host, Signature=0"}


def _without_nulls(request: HttpRequest) -> HttpRequest:
    """Return a JSON request without its null members: AWS treats them as missing, moto reads them.

    A request that cannot be parsed is returned unchanged.
    """
    if b"null" not in request.body or "x-amz-target" not in request.headers:
        return request
    try:
        value = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return request
    return msgspec.structs.replace(request, body=msgspec.json.encode(_strip(value)))


def _strip(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {name: _strip(item) for name, item in pairs if item is not None}
    if isinstance(value, list):
        return [_strip(item) for item in cast("list[Any]", value)]
    return value


def _as_form(request: HttpRequest) -> HttpRequest:
    """Return a request whose query is a form, as curl sends it to a queue, with a form's media type.

    moto takes a request to SQS that does not have it for JSON.
    """
    headers = request.headers
    if "Action=" not in request.query or "x-amz-target" in headers or "content-type" in headers:
        return request
    form = {**headers, "content-type": "application/x-www-form-urlencoded"}
    return msgspec.structs.replace(request, headers=form)


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request that moto can run.

    Attributes:
        service: botocore's name of its service.
        package: moto's package of the service.
        kind: how it is run.
        entry: the request as moto takes it and the journal stores it.
        answer: the answer, when headrace gives it without moto.
    """

    request: HttpRequest
    service: str
    package: str
    operation: str
    kind: Kind
    entry: Entry
    answer: HttpResponse | None


class Preparation:
    """Prepares requests. Thread-safe.

    Args:
        endpoint_host: returns this cloud's host, which moto puts into URLs.
        sessions: the role sessions, whose credentials moto does not know; None in a cloud without any.
        answer_without_moto: answers operations that moto lacks.
        check_strictly: with `--strict`, refuses members that would be ignored.
    """

    def __init__(
        self,
        *,
        ids: Ids,
        endpoint_host: Callable[[], str],
        sessions: RoleSessions | None,
        answer_without_moto: AnswerWithoutMoto,
        check_strictly: CheckStrictly | None,
    ) -> None:
        self._ids = ids
        self._endpoint_host = endpoint_host
        self._sessions = sessions
        self._answer_without_moto = answer_without_moto
        self._check_strictly = check_strictly

    def prepare(
        self, request: HttpRequest, service: str, *, is_from_outside: bool
    ) -> PreparedRequest:
        """Return a request whose body is checked, prepared; `service` is the name in its signature.

        moto must be loaded. Raises AwsError, with the service's sentence.
        """
        service = service_of(request, service)
        call = request.call
        assert call is not None
        if is_from_outside:
            request = _as_form(_without_nulls(request))
        if self._check_strictly is not None:
            self._check_strictly(service, request)
        host = host_of(service, call.region)
        url = f"https://{host}{request.path}"
        method = method_for(url)
        if method is None and has_service(url):
            name = _name_of_unknown(request, service)
            raise unknown_operation(name, service, _INSTEAD.get((service, name), ""))
        if method is None:
            raise AwsError("UnknownOperationException", f"headrace has no service for {host}")
        package, operation = method[0], operation_of(request)
        entry, kind = self.entry_of(request, service), kind_of(package, operation)
        # Stacks and state machines may write numbers as text, in any protocol.
        check_request(
            service, package, operation, request, self._sessions, checks_members=is_from_outside
        )
        answer = self._answer_without_moto(package, operation, request, self._sessions)
        if (package, operation) == ("kms", "CreateKey"):
            with contextlib.suppress(codec_moto.Unreadable):  # moto reports it
                make_private_key(codec_moto.operation_of(service, request)[1])
        return PreparedRequest(request, service, package, operation, kind, entry, answer)

    def entry_of(self, request: HttpRequest, service: str, seed: int = 0) -> Entry:
        """Return a request to botocore's service as moto takes it and the journal stores it; 0 makes a new seed."""
        call = request.call
        assert call is not None
        # By AWS's host name moto finds the service; it puts this cloud's into URLs.
        host = host_of(service, call.region)
        return Entry(
            method=request.method,
            url=f"https://{host}{request.path}" + (f"?{request.query}" if request.query else ""),
            headers={
                **{k: v for k, v in request.headers.items() if k != "transfer-encoding"},
                **_authorization_of(request),
                "host": self._endpoint_host(),
                "x-moto-account-id": call.account,
            },
            body=request.body,
            seed=seed or self._ids.seed(),
        )
