"""Cloud Control's state and rules: runs each request on a thread, and stores its resource.

A resource's state is the later of a stack's last change and Cloud Control's. When the cloud is killed, the requests
under way fail at the next start; GetResource shows whether the change happened.

Cloud Control's records, requests and resources; each is in the state database before the operation answers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headrace.aws.calls.operation import Call
from headrace.aws.shapes import cloudcontrol as shapes
from headrace.aws.shapes.cloudcontrol import ProgressEvent
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports.control import (
    KnownResource,
    ResourceCancelled,
    ResourcePlace,
    ResourceRefused,
    ResourceTypes,
)
from headrace.core.values import moment, present
from headrace.core.workers import Supervisor
from headrace.services.cloudcontrol import errors
from headrace.services.cloudcontrol.errors import KEPT_MS
from headrace.store.database import Database

IN_PROGRESS, SUCCESS, FAILED = "IN_PROGRESS", "SUCCESS", "FAILED"
CANCELLING, CANCELLED = "CANCEL_IN_PROGRESS", "CANCEL_COMPLETE"
RUNNING = (IN_PROGRESS, CANCELLING)


@dataclass(slots=True)
class Request:
    """One request for a change. A later request with its client token must have the same `asked`.

    Attributes:
        operation: `CREATE`, `UPDATE` or `DELETE`.
        began_ms, changed_ms: when it arrived, and when its status last changed.
        error_code: AWS's HandlerErrorCode, if it failed.
    """

    token: str
    account: str
    region: str
    kind: str
    operation: str
    asked: str
    began_ms: int
    changed_ms: int
    client_token: str = ""
    identifier: str = ""
    status: str = IN_PROGRESS
    model: str = ""
    message: str = ""
    error_code: str = ""

    def event(self) -> ProgressEvent:
        """Return the ProgressEvent."""
        return present(
            {
                "TypeName": self.kind,
                "RequestToken": self.token,
                "Operation": self.operation,
                "OperationStatus": self.status,
                "EventTime": moment(self.changed_ms),
                "Identifier": self.identifier or None,
                "ResourceModel": self.model or None,
                "StatusMessage": self.message or None,
                "ErrorCode": self.error_code or None,
            }
        )


@dataclass(slots=True)
class StoredResource:
    """A resource as Cloud Control last left it, whether a stack created it or not; `gone` if it was deleted.

    Its physical id is its identifier, unless it has one of its own (older versions stored none).
    """

    account: str
    region: str
    kind: str
    identifier: str
    at_ms: int
    gone: bool = False
    physical_id: str = ""
    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])


class ControlStore:
    """Requests of the last seven days, and resources. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._requests = database.documents("cloudcontrol_requests")
        self._resources = database.documents("cloudcontrol_resources")
        self._lock = threading.Lock()
        self._by_token: dict[str, Request] = {}
        self._kept: dict[str, StoredResource] = {}

    def load(self) -> None:
        """Load everything from the database."""
        self._by_token = {token: Request(**value) for token, value in self._requests.items()}
        self._kept = {key: StoredResource(**value) for key, value in self._resources.items()}

    def put(self, request: Request) -> None:
        """Store a request, and delete those older than seven days."""
        with self._lock:
            self._by_token[request.token] = request
            self._requests.put(request.token, asdict(request))
            oldest_ms = request.changed_ms - KEPT_MS
            for old in [r for r in self._by_token.values() if r.began_ms < oldest_ms]:
                if old.status not in RUNNING:
                    del self._by_token[old.token]
                    self._requests.delete(old.token)

    def requests(self) -> list[Request]:
        """Return all requests, newest first."""
        with self._lock:
            requests = list(self._by_token.values())
        return sorted(requests, key=lambda request: (request.began_ms, request.token), reverse=True)

    def keep(self, resource: StoredResource) -> None:
        """Store a resource as Cloud Control left it."""
        key = "/".join((resource.account, resource.region, resource.kind, resource.identifier))
        with self._lock:
            self._kept[key] = resource
            self._resources.put(key, asdict(resource))

    def list_stored(self, account: str, region: str, kind: str) -> list[StoredResource]:
        """Return the resources of a type that Cloud Control made, changed or deleted, in the order of that."""
        with self._lock:
            resources = list(self._kept.values())
        of_kind = [r for r in resources if (r.account, r.region, r.kind) == (account, region, kind)]
        return sorted(of_kind, key=lambda resource: resource.at_ms)


Work = Callable[[ResourcePlace], "KnownResource | None"]


class CloudControl:
    """All requests of all accounts and regions. Thread-safe."""

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        store: ControlStore,
        types: ResourceTypes,
        supervisor: Supervisor,
    ) -> None:
        self.types = types
        self._clock = clock
        self._ids = ids
        self._store = store
        self._supervisor = supervisor
        self._lock = threading.RLock()
        self._stops: dict[str, threading.Event] = {}
        self._executor: Executor | None = None

    def start(self) -> None:
        """Load the requests, and fail those that were running when the last cloud ended."""
        self._store.load()
        self._executor = self._supervisor.executor(errors.AT_ONCE, "cloudcontrol")
        for request in self._store.requests():
            if request.status in RUNNING:
                self._end(request, FAILED, "headrace was stopped meanwhile", "InternalFailure")

    def stop(self) -> None:
        """Cancel the running requests, and wait for them."""
        with self._lock:
            for stop in self._stops.values():
                stop.set()
        if self._executor is not None:
            self._executor.shutdown(wait=True)

    # --- resources ----------------------------------------------------------------------------

    def check_type(self, kind: str, action: str) -> None:
        """Raise AwsError for a type that headrace does not have, or that works only in a stack."""
        if not self.types.is_known(kind):
            raise errors.type_not_found(kind)
        if not self.types.knows(kind):
            raise errors.build_unsupported_action(kind, action)

    def resources(self, call: Call, kind: str) -> list[KnownResource]:
        """Return the resources of a type, sorted by identifier."""
        by_identifier = {
            self.types.identifier_of(kind, r): r
            for r in self.types.in_stacks(call.account, call.region, kind)
        }
        for kept in self._store.list_stored(call.account, call.region, kind):
            resource = KnownResource(
                kept.physical_id or kept.identifier, kept.properties, kept.attributes, kept.at_ms
            )
            identifier = kept.identifier
            if not (kept.physical_id or kept.gone):
                # An older version stored it by its physical id.
                identifier = self.types.identifier_of(kind, resource)
            before = by_identifier.get(identifier)
            if before is not None and before.changed_ms > kept.at_ms:
                continue
            by_identifier.pop(identifier, None)
            if not kept.gone:
                by_identifier[identifier] = resource
        return [by_identifier[identifier] for identifier in sorted(by_identifier)]

    def listed(self, call: Call, kind: str) -> dict[str, KnownResource | None]:
        """Return a type's resources by identifier, in order; None for those that another API made. Raises AwsError."""
        resources = self.resources(call, kind)
        known = {self.types.identifier_of(kind, resource): resource for resource in resources}
        resource_place = ResourcePlace(call.account, call.region, threading.Event(), lambda _: None)
        try:
            others = self.types.list_identifiers(resource_place, kind)
        except ResourceRefused as error:
            raise errors.invalid(str(error)) from error
        return {identifier: known.get(identifier) for identifier in sorted({*known, *others})}

    def model(self, kind: str, resource: KnownResource) -> str:
        """Return a resource's properties as JSON: also read-only ones, but no write-only ones."""
        read_only = {
            name: value
            for name, value in resource.attributes.items()
            if "." not in name and name not in resource.properties
        }
        return json.dumps(self.types.readable(kind, {**read_only, **resource.properties}))

    def get(self, call: Call, kind: str, identifier: str) -> KnownResource:
        """Return a resource by its identifier, physical id or ARN, as its service has it now. Raises AwsError."""
        resources = self.resources(call, kind)
        named = (r for r in resources if identifier == self.types.identifier_of(kind, r))
        # The physical id of a type with a compound identifier may name several.
        others = (r for r in resources if identifier in (r.identifier, r.attributes.get("Arn")))
        known = next(named, None) or next(others, None)
        live = self.read(call, kind, identifier, known)
        if live is None:
            raise errors.not_found(kind, identifier, self._ids.uuid())
        return live

    def read(
        self, call: Call, kind: str, identifier: str, known: KnownResource | None
    ) -> KnownResource | None:
        """Return a resource as its service has it now; None: it is gone. Raises AwsError."""
        resource_place = ResourcePlace(call.account, call.region, threading.Event(), lambda _: None)
        try:
            return self.types.read(resource_place, kind, identifier, known)
        except ResourceRefused as error:
            raise errors.invalid(str(error)) from error

    # --- requests -----------------------------------------------------------------------------

    def ask(
        self,
        call: Call,
        request: shapes.CreateResourceInput
        | shapes.UpdateResourceInput
        | shapes.DeleteResourceInput,
        operation: str,
        work: Work,
        before: KnownResource | None = None,
    ) -> shapes.ProgressEvent:
        """Begin an operation, or find the one with the same client token; return its ProgressEvent. Raises AwsError."""
        kind, client_token = str(request["TypeName"]), str(request.get("ClientToken") or "")
        identifier = "" if before is None else self.types.identifier_of(kind, before)
        asked = json.dumps([operation, dict(request)], sort_keys=True)
        with self._lock:
            same = self._with_client_token(call, client_token)
            if same is not None:
                if same.asked != asked:
                    raise errors.token_conflict(client_token)
                return same.event()
            self._refuse_second(call, kind, identifier)
            accepted = Request(
                self._ids.uuid(),
                call.account,
                call.region,
                kind,
                operation,
                asked,
                call.now_ms,
                call.now_ms,
                client_token=client_token,
                identifier=identifier,
            )
            self._store.put(accepted)
            self._stops[accepted.token] = threading.Event()
            event = accepted.event()
            assert self._executor is not None
            self._executor.submit(self._run, accepted, work)
        return event

    def _with_client_token(self, call: Call, client_token: str) -> Request | None:
        if not client_token:
            return None
        scope_key = (call.account, call.region, client_token)
        requests = self._store.requests()
        return next(
            (r for r in requests if (r.account, r.region, r.client_token) == scope_key), None
        )

    def _refuse_second(self, call: Call, kind: str, identifier: str) -> None:
        scope_key = (call.account, call.region, kind, identifier)
        for other in self._store.requests():
            same = (other.account, other.region, other.kind, other.identifier) == scope_key
            if identifier and same and other.status in RUNNING:
                raise errors.concurrent(kind, identifier)

    def _run(self, request: Request, work: Work) -> None:
        def note(identifier: str) -> None:
            request.identifier = identifier
            self._store.put(request)

        stop = self._stops[request.token]
        resource_place = ResourcePlace(request.account, request.region, stop, note)
        try:
            resource = work(resource_place)
        except ResourceCancelled as error:
            self._end(request, CANCELLED, str(error))
        except ResourceRefused as error:
            self._end(request, FAILED, str(error), error.code)
        else:
            self._keep(request, resource)
            if resource is not None:
                request.identifier = self.types.identifier_of(request.kind, resource)
                request.model = self.model(request.kind, resource)
            self._end(request, SUCCESS)
        finally:
            with self._lock:
                self._stops.pop(request.token, None)

    def _keep(self, request: Request, resource: KnownResource | None) -> None:
        scope_key = (request.account, request.region, request.kind)
        now_ms = self._clock.now_ms()
        if resource is None:
            self._store.keep(StoredResource(*scope_key, request.identifier, now_ms, gone=True))
            return
        properties, attributes = dict(resource.properties), dict(resource.attributes)
        self._store.keep(
            StoredResource(
                *scope_key,
                self.types.identifier_of(request.kind, resource),
                now_ms,
                physical_id=resource.identifier,
                properties=properties,
                attributes=attributes,
            )
        )

    def _end(self, request: Request, status: str, message: str = "", code: str = "") -> None:
        request.status, request.message, request.error_code = status, message, code
        request.changed_ms = self._clock.now_ms()
        self._store.put(request)

    def request(self, call: Call, token: str) -> Request:
        """Return a request. Raises AwsError."""
        for request in self.requests(call):
            if request.token == token:
                return request
        raise errors.token_not_found(token)

    def requests(self, call: Call) -> list[Request]:
        """Return the requests of an account and region, newest first."""
        scope_key = (call.account, call.region)
        return [replace(r) for r in self._store.requests() if (r.account, r.region) == scope_key]

    def cancel(self, call: Call, token: str) -> shapes.ProgressEvent:
        """Begin to cancel a request; return its ProgressEvent. Raises AwsError if it has ended."""
        with self._lock:
            request, stop = self.request(call, token), self._stops.get(token)
            if stop is None or request.status not in RUNNING:
                raise errors.already_ended(token)
            stop.set()
            request.status = CANCELLING
            return request.event()
