"""Finds the service and operation of a request, runs it, and returns its answer.

One `Gateway` serves the socket (`handle`), tests (`handle`, in process) and services that call each other
(`control_plane`). It finds the service by the signature's scope, then `X-Amz-Target`, then the path, then the form's
Version, as the services' profiles declare them; it knows no service by name. headrace owns a service whole or not at
all: an operation that an owned service does not implement answers UnknownOperationException and is never passed to
moto. Thread-safe.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from urllib.parse import parse_qs

from botocore.model import OperationNotFoundError

from headrace.aws.calls.errors import AwsError, internal_failure
from headrace.aws.calls.http import HttpRequest, HttpResponse, NeedsThread, Scope
from headrace.aws.calls.operation import (
    Call,
    Callers,
    Permissions,
    Signer,
    is_restricted,
    name_of_root,
    operation_model,
)
from headrace.aws.gateway.control_plane import ControlPlaneCalls, MotoServices
from headrace.aws.gateway.documents import error_answer
from headrace.aws.gateway.faults import Faults, answer_with_faults
from headrace.aws.gateway.inline_requests import InlineRequests
from headrace.aws.protocols import codec_json, codec_moto, encodings
from headrace.aws.protocols.owned_service import OwnedService
from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.aws.signatures import presigned
from headrace.aws.signatures.access_keys import KEY_PREFIX, RoleSessions
from headrace.aws.signatures.auth_errors import wording_of
from headrace.aws.signatures.authentication import Authentication
from headrace.aws.signatures.credential_scopes import SIGV2, ServiceNames, scope_of
from headrace.core.arn import is_account_id
from headrace.core.clock import Clock
from headrace.core.ids import Ids

log = logging.getLogger(__name__)
MOST_ACCOUNTS_KEPT = 10_000
# Of users' and sessions' access keys.
_KEY_CHARS = 20
_PUBLIC_SERVICES = ("cognito-identity", "cognito-idp", "sns")


class Gateway(ControlPlaneCalls):
    """Routes requests to owned services and to moto.

    Attributes:
        names: finds the service of a request.
        inline: tells which requests never block.
        owned: the owned services by botocore's name; more come until the first request.
        faults: the rules of fault injection.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        account: str,
        region: str,
        moto: MotoServices,
        authentication: Authentication | None = None,
        sessions: RoleSessions | None = None,
        strict: bool = False,
    ) -> None:
        super().__init__(clock=clock, ids=ids, account=account, region=region, moto=moto)
        self._strict = strict
        self._authentication = authentication
        self._sessions = sessions
        self.faults = Faults(ids)
        self.names = ServiceNames()
        find = self.names.service_of
        self.inline = InlineRequests(self.faults, authentication, moto.may_be_quick, find)
        self._callers: Callers | None = None
        self.owned: dict[str, ServiceApi] = {}
        for name, profile in moto.profiles.items():
            self._add(name, profile)
        self._accounts: dict[str, str] = {}

    def register(self, api: ServiceApi) -> None:
        """Add an owned service. A test checks its actions against AWS's model, by `check_api`."""
        self._services[api.name] = OwnedService(
            api, strict=self._strict, before_policies_change=self._before_policies_change
        )
        self.owned[api.name] = api
        self._add(api.name, api.profile)
        self.inline.add(api)
        if api.shards_by_stream is not None:
            self.faults.know_streams(api.shards_by_stream)

    def ask_first(self, permissions: Permissions | None, callers: Callers) -> None:
        """Set who checks permissions and names callers, before the first request.

        Without permissions, everybody may do everything.
        """
        self.permissions = self.inline.permissions = permissions
        self._callers = callers

    def _before_policies_change(self) -> None:
        if self.permissions is not None:
            self.permissions.before_policies_change()

    def _add(self, name: str, profile: Profile) -> None:
        self.names.add(name, profile)
        self.faults.errors[name] = profile.fault_errors

    # --- requests -----------------------------------------------------------------------------

    def service_of_head(self, request: HttpRequest) -> str | None:
        """Return the service of a request by its head alone; None when only the body can tell."""
        return self.names.of_head(request, scope_of(request))

    def exposed_headers(self, service: str) -> str | None:
        """See `Profile.exposed_headers`."""
        owned = self._services.get(service)
        return None if owned is None else owned.api.profile.exposed_headers

    def refusal_of(self, request: HttpRequest) -> HttpResponse | None:
        """Return the refusal of a request by its head alone; None to accept it. Never blocks.

        Without `--auth` nothing is refused this early, nor are requests whose service only the body tells.
        """
        scope = scope_of(request)
        service = self.names.of_head(request, scope)
        if self._authentication is None or service is None or _is_public(request, service):
            return None
        try:
            self._authentication.verify_head(request, service, self._clock.now_ms())
        except AwsError as error:
            return error_answer(request, service, error, self._call(scope, service, {}).request_id)
        return None

    def handle(self, request: HttpRequest) -> HttpResponse | Future[HttpResponse]:
        """Answer a request; never raises. An answer may have `waits`, or be a Future of one."""
        scope = request.scope or scope_of(request)
        service = request.service or self.names.service_of(request)
        owned = self._services.get(service)
        answered = self._answer_by_moto if owned is None else owned.answer
        call = self._call(scope, service, request.headers)
        request.call = call
        is_session = scope.access_key.startswith(KEY_PREFIX)
        may_lack = owned is not None and not (scope.algorithm and scope.is_whole)
        is_incomplete = may_lack and presigned.is_incomplete(request)
        if self._authentication is not None or request.query or is_session or is_incomplete:
            refusal = self._refusal(owned, request, call)
            if refusal is not None:
                return refusal
        permissions, key = self.permissions, scope.access_key
        # The account's own keys need a permit only where denied requests are refused.
        if permissions is not None and (key[:1] == "A" or permissions.enforces):
            call.permit = permissions.permit_of(key, scope.token, call.account)
        if self.faults.rules and self.faults.concerns(service):
            answer = answer_with_faults(
                self.faults,
                self._clock,
                None if owned is None else owned.api,
                request,
                call,
                functools.partial(answered, request, call),
            )
        else:
            call.may_share = request.may_share
            answer = answered(request, call)
        if owned is None:
            return answer
        if isinstance(answer, HttpResponse):
            answer.headers.append(("x-amzn-RequestId", call.request_id))
        else:
            # This callback runs before those of the Future's waiters.
            answer.add_done_callback(functools.partial(_add_request_id, call.request_id))
        return answer

    def admit(self, request: HttpRequest, service: str) -> HttpResponse | None:
        """Note who signed a request to a resource's own endpoint, in `request.signer`; return a wrong one's refusal.

        `service` is the one that the signature must name. A request that nobody signed has no signer; the resource
        decides about it.
        """
        scope = scope_of(request)
        if scope.algorithm in ("", SIGV2):
            return None
        call = self._call(scope, service, request.headers)
        refusal = self._refusal(None, request, call)
        if refusal is not None:
            return refusal
        if self._authentication is not None and scope.service != service:
            error = wording_of(request, service).other_service(service)
            return error_answer(request, service, error, call.request_id)
        request.signer = self._signer_of(scope, call.account)
        return None

    def _signer_of(self, scope: Scope, account: str) -> Signer:
        callers = self._callers if is_restricted(scope.access_key) else None
        name = None if callers is None else callers.name_of(scope.access_key, scope.token)
        name = name or name_of_root(account)
        permissions = self.permissions
        permit = None
        if permissions is not None:
            permit = permissions.permit_of(scope.access_key, scope.token, account)
        return Signer(scope.access_key, account, *name, permit)

    def _refusal(
        self, owned: OwnedService | None, request: HttpRequest, call: Call
    ) -> HttpResponse | None:
        """Refuse a request that is not signed or wrongly signed; without `--auth`, only invalid or expired ones.

        Without `--auth` these are expired presigned URLs and role credentials, and signatures that lack parts.
        """
        try:
            is_open = (
                _is_public(request, call.service)
                if owned is None
                else request.method in owned.api.profile.unsigned_methods
            )
            if is_open:
                pass
            elif self._authentication is None:
                wording = wording_of(request, call.service)
                if owned is not None and "x-amz-target" in request.headers:
                    presigned.check_completeness(request, wording)
                presigned.check(request, wording, call.now_ms)
                self._check_session(request, call)
            else:
                key = self._authentication.verify(request, call.service, call.now_ms)
                call.account = key.account or call.account
        except AwsError as error:
            answer = error_answer(request, call.service, error, call.request_id)
            answer.headers.append(("x-amzn-RequestId", call.request_id))
            return answer
        return None

    def _answer_cbor(self, request: HttpRequest, call: Call) -> HttpResponse:
        try:
            service = self._moto.service_of(request, call.service)
            return encodings.answer_as_cbor(
                request, service, lambda asked: self._answer_by_moto(asked, call)
            )
        except Exception:
            log.exception("%s failed in CBOR", call.service)
            return error_answer(request, call.service, internal_failure(), call.request_id)

    def _answer_by_moto(self, request: HttpRequest, call: Call) -> HttpResponse:
        if encodings.is_rpc(request):
            return self._answer_cbor(request, call)
        service = call.service
        try:
            if call.permit is not None:
                refusal = self._denial(request, call)
                if refusal is not None:
                    return refusal
            return self._moto.handle(request, service)
        except NeedsThread:
            raise
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

    def _denial(self, request: HttpRequest, call: Call) -> HttpResponse | None:
        """Return the refusal of a request to one of moto's services that its caller may not make; None to accept it."""
        assert call.permit is not None
        service = self._moto.service_of(request, call.service)
        try:
            operation, params = codec_moto.operation_of(service, request)
            call.permit.ask(service, operation, params, account=call.account, region=call.region)
        except codec_moto.Unreadable as error:
            # What nobody could ask for is not passed on: moto may read more than this parser.
            if self.permissions is None or not self.permissions.enforces:
                return None
            return error_answer(request, service, error.refusal, call.request_id)
        except AwsError as error:
            return error_answer(request, service, error, call.request_id)
        return None

    def _call(self, scope: Scope, service: str, headers: Mapping[str, str]) -> Call:
        self._request_count += 1
        # Positional arguments: keyword arguments cost time on every request.
        return Call(
            self.account_of(scope.access_key),
            scope.region or self._region,
            f"{self._request_prefix}{self._request_count:012x}",
            self._clock.now_ms(),
            service,
            "",
            scope.access_key,
            headers,
        )

    def _check_session(self, request: HttpRequest, call: Call) -> None:
        """Refuse credentials of a role's session that have expired, or whose token is another's. Raises AwsError."""
        sessions = self._sessions
        if sessions is None or sessions.account_of(call.access_key) is None:
            return
        session = sessions.find(call.access_key, scope_of(request).token)
        if session is None:
            raise wording_of(request, call.service).wrong_token()
        if call.now_ms >= session.expires_ms:
            raise wording_of(request, call.service).expired_token()

    def account_of(self, access_key: str) -> str:
        """Return the account of an access key: the key itself when it is 12 digits, else its session's or user's."""
        if not access_key:
            return self._account
        known = self._accounts.get(access_key)
        if known is not None:
            return known
        if is_account_id(access_key):
            account = access_key
        elif len(access_key) != _KEY_CHARS:
            account = self._account
        else:
            account = None if self._sessions is None else self._sessions.account_of(access_key)
            account = account or self._moto.account_of(access_key)
        if account is None:
            return self._account  # not cached: STS may know it later
        if len(self._accounts) >= MOST_ACCOUNTS_KEPT:
            # Session keys come and go while a cloud runs, so the cache is bounded.
            self._accounts.clear()
        self._accounts[access_key] = account
        return account


def _is_public(request: HttpRequest, service: str) -> bool:
    """Return whether a request without a signature is for an operation that nobody signs.

    These are Cognito's, by its model, its tokens' keys, SNS's certificates, and the link by which an endpoint confirms
    its subscription. STS's for tokens and assertions stay closed: nobody verifies these without `--iam enforce`.
    """
    if scope_of(request).algorithm or service not in _PUBLIC_SERVICES:
        return False
    if request.method == "GET" and "x-amz-target" not in request.headers:
        confirms = parse_qs(request.query).get("Action") == ["ConfirmSubscription"]
        is_pem = not request.query and request.path.startswith("/SimpleNotificationService-")
        return service == "cognito-idp" or (service == "sns" and (confirms or is_pem))
    named = request.headers.get("x-amz-target", "").rpartition(".")[2]
    try:
        return operation_model(service, named).auth_type == "none"
    except OperationNotFoundError:
        return False


def _add_request_id(request_id: str, answer: Future[HttpResponse]) -> None:
    if answer.exception() is None:
        answer.result().headers.append(("x-amzn-RequestId", request_id))
