"""Runs the operations that parts of the cloud call of its services, in process, without a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Call, Permissions
from headrace.aws.protocols.owned_service import OwnedService
from headrace.aws.protocols.service import Profile
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import CallerIdentity


class MotoServices(Protocol):
    """The services that headrace does not own."""

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """The profiles of services, by botocore's name; a service without a profile uses botocore's names."""
        ...

    def handle(self, request: HttpRequest, service: str) -> HttpResponse:
        """Answer a request to `service` (the signature scope's name)."""
        ...

    def call(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        account: str,
        region: str,
        is_for_client: bool,
    ) -> dict[str, Any]:
        """Run an operation in process, for a client's role or for the cloud itself. Raises AwsError."""
        ...

    def may_be_quick(self, request: HttpRequest) -> bool:
        """Whether a request may be answered on the event loop's thread; `handle` may still raise NeedsThread."""
        ...

    def service_of(self, request: HttpRequest, service: str) -> str:
        """Return botocore's name of the service that a request's signature names."""
        ...

    def account_of(self, access_key: str) -> str | None:
        """Return the account of a temporary or user key; empty when it is unknown."""
        ...


class ControlPlaneCalls:
    """Implements `headrace.core.ports.ControlPlane`; the gateway adds the services.

    Attributes:
        permissions: who is asked what an identity may do; None: everybody may do everything.
    """

    def __init__(
        self, *, clock: Clock, ids: Ids, account: str, region: str, moto: MotoServices
    ) -> None:
        self._clock, self._ids, self._moto = clock, ids, moto
        self._account, self._region = account, region
        self._services: dict[str, OwnedService] = {}
        self.permissions: Permissions | None = None
        # Request ids must be unique, not unguessable: a random start and a counter are cheap.
        prefix = ids.hex(20)
        self._request_prefix = f"{prefix[:8]}-{prefix[8:12]}-{prefix[12:16]}-{prefix[16:]}-"
        self._request_count = 0

    def call(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        account: str | None = None,
        region: str | None = None,
        acting: CallerIdentity | None = None,
    ) -> dict[str, Any]:
        """See `headrace.core.ports.ControlPlane.call`."""
        owned = self._services.get(service)
        account, region, permit = account or self._account, region or self._region, None
        if acting is not None and acting.arn and self.permissions is not None:
            permit = self.permissions.permit_as(acting)
        if permit is not None:
            permit.ask(service, operation, params, account=account, region=region)
        if owned is None:
            return self._moto.call(
                service, operation, params,
                account=account, region=region, is_for_client=acting is not None,
            )  # fmt: skip
        self._request_count += 1
        request_id = f"{self._request_prefix}{self._request_count:012x}"
        now_ms = self._clock.now_ms()
        made = Call(account, region, request_id, now_ms, service, operation, account, {})
        made.permit, made.acting = permit, acting
        output = owned.operations.run(operation, params, made, is_permitted=True)
        for wait in made.waits:
            wait.result()
        return output
