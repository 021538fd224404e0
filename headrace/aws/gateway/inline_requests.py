"""Decides which requests never block, so that the event loop's thread can answer them itself."""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.calls.http import HttpRequest
from headrace.aws.calls.permits import Permissions, is_restricted
from headrace.aws.faults.faults import Faults
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
    ) -> None:
        self.permissions: Permissions | None = None
        self._faults = faults
        self._may_be_quick = may_be_quick
        self._authentication = authentication
        # The targets (`X-Amz-Target`) of the services' inline operations.
        self._targets: set[str] = set()

    def add(self, api: ServiceApi) -> None:
        """Add the operations of a service that never block."""
        prefix = api.profile.target_prefix
        self._targets.update(f"{prefix}.{operation}" for operation in api.inline)

    def has(self, request: HttpRequest) -> bool:
        """Whether a request never blocks, or says so by `NeedsThread`, and may run on the event loop's thread."""
        is_declared = request.headers.get("x-amz-target") in self._targets
        if not (is_declared or self._may_be_quick(request)) or self._faults.is_slow:
            return False
        authentication, permissions = self._authentication, self.permissions
        if (
            permissions is not None
            and (permissions.enforces or not is_declared)
            # Reading policies may have to wait until moto is loaded.
            and is_restricted(scope_of(request).access_key)
        ):
            return False
        request.at_once = authentication is None or authentication.is_quick(
            scope_of(request).access_key
        )
        return request.at_once
