"""A small OpenSearch without a cloud, and four flights in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.core.ids import Ids
from headrace.services.opensearch.rest import RestAnswer, SearchRequest, SearchRestApi
from headrace.services.opensearch.store import Store
from tests.support.clock import FakeClock

FLIGHTS = [
    ("1", {"carrier": "AA", "delay": 5, "at": "2026-01-01T10:00:00Z", "note": "Gate changed late"}),
    ("2", {"carrier": "UA", "delay": 50, "at": "2026-01-01T23:59:59Z", "note": "late late late"}),
    ("3", {"carrier": "AA", "delay": -3, "at": "2026-01-03T00:00:00Z", "note": "On time"}),
    ("4", {"carrier": "DL", "delay": 7.9, "at": "2026-02-01", "note": "gate open", "ok": True}),
]


class Lab:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start()

    def start(self) -> None:
        self.store = Store(self.folder / "search.sqlite")
        self.clock = FakeClock()
        self.rest = SearchRestApi(self.store, self.clock, Ids(7))

    def stop(self) -> None:
        self.rest.close()
        self.store.close()

    def ask(self, method: str, path: str, body: Any = None, domain: str = "d") -> RestAnswer:
        path, _, query = path.partition("?")
        pairs = (pair.partition("=") for pair in query.split("&") if pair)
        data = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        parts = [part for part in path.split("/") if part]
        return self.rest.answer(
            SearchRequest(domain, method, parts, {k: v for k, _, v in pairs}, data)
        )

    def bulk(self, *lines: Any, path: str = "/_bulk") -> RestAnswer:
        return self.ask("POST", path, "".join(json.dumps(line) + "\n" for line in lines).encode())

    def found(self, query: Any, **more: Any) -> list[str]:
        """Return the ids of a search, in order."""
        reply = self.ask("POST", "/f/_search", {"query": query, **more})
        assert reply.status == 200, reply.body
        return [hit["_id"] for hit in reply.body["hits"]["hits"]]

    def refused(self, *asked: Any) -> tuple[int, str, str]:
        reply = self.ask(*asked)
        error = reply.body["error"]
        assert error["root_cause"][0]["type"] == error["type"]
        assert reply.body["status"] == reply.status
        return reply.status, error["type"], error["reason"]


def put_flights(lab: Lab) -> None:
    lines = [x for i, doc in FLIGHTS for x in ({"index": {"_index": "f", "_id": i}}, doc)]
    assert lab.bulk(*lines).body["errors"] is False
