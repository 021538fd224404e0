"""Stores requests and resources in the state database before the operation answers."""

from __future__ import annotations

import threading
from dataclasses import asdict

from headrace.services.cloudcontrol.limits import KEPT_MS
from headrace.services.cloudcontrol.state import RUNNING, Request, StoredResource
from headrace.store.database import Database


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
            by_tokens = list(self._by_token.values())
        return sorted(
            by_tokens, key=lambda request: (request.began_ms, request.token), reverse=True
        )

    def keep(self, resource: StoredResource) -> None:
        """Store a resource as Cloud Control left it."""
        key = "/".join((resource.account, resource.region, resource.kind, resource.identifier))
        with self._lock:
            self._kept[key] = resource
            self._resources.put(key, asdict(resource))

    def list_stored(self, account: str, region: str, kind: str) -> list[StoredResource]:
        """Return the resources of a type that Cloud Control made, changed or deleted."""
        with self._lock:
            requests = list(self._kept.values())
        return [r for r in requests if (r.account, r.region, r.kind) == (account, region, kind)]
