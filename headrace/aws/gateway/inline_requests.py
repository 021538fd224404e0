"""Decides which requests never block, so that the event loop's thread can answer them itself."""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.calls.http import HttpRequest
from headrace.aws.calls.operation import Permissions, is_restricted
from headrace.aws.gateway.faults import Faults
from headrace.aws.protocols.service import ServiceApi
from headrace.aws.signatures.authentication import Authentication
from headrace.aws.signatures.credential_scopes import scope_of


class InlineRequests:
    """Knows the operations that services declare inline; they never block unless faults or permissions may wait.

    Attributes:
        permissions: the gateway's permissions; set before the first request.
    """

    def __init__(
        self,
        faults: Faults,
        authentication: Authentication | None,
        may_be_quick: Callable[[HttpRequest], bool],
        service_of: Callable[[HttpRequest], str],
    ) -> None:
        self.permissions: Permissions | None = None
        self._faults = faults
        self._may_be_quick = may_be_quick
        self._service_of = service_of
        self._quick: dict[str, Callable[[HttpRequest], bool]] = {}
        self._authentication = authentication
        # The targets (`X-Amz-Target`) of the services' inline operations, and whose they are.
        self._targets: dict[str, str] = {}

    def add(self, api: ServiceApi) -> None:
        """Add the operations of a service that never block."""
        prefix = api.profile.target_prefix
        self._targets.update((f"{prefix}.{operation}", api.name) for operation in api.inline)
        if api.may_be_quick is not None:
            self._quick[api.name] = api.may_be_quick

    def has(self, request: HttpRequest) -> bool:
        """Whether a request never blocks, or says so by `NeedsThread`, and may run on the event loop's thread."""
        authentication, permissions = self._authentication, self.permissions
        enforces = permissions is not None and permissions.enforces
        # A signature for another service leads there, whatever the target and the path say.
        service = self._service_of(request)
        is_declared = self._targets.get(request.headers.get("x-amz-target", "")) == service
        is_quick = is_declared or self._may_be_quick(request)
        if not is_quick and not enforces and service in self._quick:
            is_quick = self._quick[service](request)
        if not is_quick or self._faults.is_slow:
            return False
        if self._faults.rules and not is_declared:
            # A rule counts a request once, and not again on its thread.
            return False
        if (
            permissions is not None
            and (enforces or not is_declared)
            # Reading policies may have to wait until moto is loaded.
            and is_restricted(scope_of(request).access_key)
        ):
            return False
        return authentication is None or authentication.is_quick(scope_of(request).access_key)
