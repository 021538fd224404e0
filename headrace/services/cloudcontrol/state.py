"""Cloud Control's records, requests and resources; each is in the state database before the operation answers."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.aws.shapes.cloudcontrol import ProgressEvent
from headrace.core.values import moment, present
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
        """Return the resources of a type that Cloud Control made, changed or deleted."""
        with self._lock:
            resources = list(self._kept.values())
        return [r for r in resources if (r.account, r.region, r.kind) == (account, region, kind)]
