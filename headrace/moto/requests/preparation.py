"""Prepares a request for moto: checks it, and finds the function of moto's that answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.protocols.body_bounds import check_body
from headrace.aws.signatures.sessions import RoleSessions
from headrace.core.ids import Ids
from headrace.moto.requests.conversion import entry_of, host_of, method_for, operation_of
from headrace.moto.requests.members import check_members, without_nulls
from headrace.moto.requests.resource_policies import check_put
from headrace.moto.storage.journal import Entry

# Takes moto's package, the operation and the request; returns the answer to an operation that moto lacks, or None.
AnswerWithoutMoto = Callable[[str, str, HttpRequest, RoleSessions | None], HttpResponse | None]
# Takes the service and a request. Raises AwsError for a member that would be ignored.
CheckStrictly = Callable[[str, HttpRequest], None]


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request that moto can run.

    Attributes:
        service: botocore's name of its service.
        package: moto's package of the service.
        entry: the request as moto takes it and the journal stores it.
        answer: the answer, when headrace gives it without moto.
    """

    request: HttpRequest
    service: str
    package: str
    operation: str
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
        """Return the request, prepared. moto must be loaded. Raises AwsError, with the service's sentence."""
        call = request.call
        assert call is not None
        check_body(request)
        if is_from_outside:
            request = without_nulls(request)
        if self._check_strictly is not None:
            self._check_strictly(service, request)
        host = host_of(service, call.region)
        method = method_for(f"https://{host}{request.path}")
        if method is None:
            raise AwsError("UnknownOperationException", f"headrace has no service for {host}")
        package, operation = method[0], operation_of(request)
        entry = entry_of(request, host, self._endpoint_host(), self._ids.bytes(8))
        # Stacks and state machines may write numbers as text, in any protocol.
        if is_from_outside:
            check_members(service, operation, request)
        check_put(service, package, operation, request, self._sessions)
        answer = self._answer_without_moto(package, operation, request, self._sessions)
        return PreparedRequest(request, service, package, operation, entry, answer)
