"""Splunk's HTTP event collector for tests: it keeps what it took, and withholds, delays and refuses as it is told.

Source of requests, answers and codes: docs.splunk.com, "HTTP Event Collector REST API endpoints" (documented).
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.endpoint import Behaviour, Endpoint, Request, endpoint, json_answer

TOKEN = "00000000-1111-2222-3333-444444444444"


@dataclass
class Hec:
    """A collector.

    Attributes:
        refusals: what the next data is answered with, in order; then it is taken.
        ack_refusals: the same of questions after acknowledgements.
        polls_needed: how often an acknowledgement is asked for before it is given; -1: never.
        has_acks: whether acknowledgements are on.
        taken: what was taken, by the path of its endpoint.
    """

    server: Endpoint
    refusals: list[Behaviour] = field(default_factory=list)
    ack_refusals: list[Behaviour] = field(default_factory=list)
    polls_needed: int = 1
    has_acks: bool = True
    taken: list[tuple[str, bytes]] = field(default_factory=list)
    polls: int = 0
    channels: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        return self.server.url

    def answer(self, request: Request) -> bytes | None:
        path, _, query = request.path.partition("?")
        if request.headers.get("authorization") != f"Splunk {TOKEN}":
            return says(403, 4, "Invalid token")
        channel = request.headers.get("x-splunk-request-channel", "")
        if not channel or query != f"channel={channel}":
            return says(400, 10, "Data channel is missing")
        if path == "/services/collector/ack":
            return self._acknowledge(request, channel)
        if self.refusals:
            return self.refusals.pop(0)(request)
        self.taken.append((path, request.body))
        self.channels.add(channel)
        said: dict[str, object] = {"text": "Success", "code": 0}
        return json_answer(200, said | ({"ackId": len(self.taken) - 1} if self.has_acks else {}))

    def _acknowledge(self, request: Request, channel: str) -> bytes | None:
        self.polls += 1
        if self.ack_refusals:
            return self.ack_refusals.pop(0)(request)
        if channel not in self.channels:
            return says(400, 11, "Invalid data channel")
        given = 0 <= self.polls_needed <= self.polls
        return json_answer(200, {"acks": {str(ack): given for ack in request.json["acks"]}})


def says(status: int, code: int, text: str) -> bytes:
    """Return a refusal of HEC's."""
    return json_answer(status, {"text": text, "code": code})


@contextmanager
def hec(tls: ssl.SSLContext | None = None) -> Iterator[Hec]:
    """Run a collector on 127.0.0.1; with `tls` it speaks https."""
    collectors: list[Hec] = []
    with endpoint(lambda request: collectors[0].answer(request), tls) as server:
        collectors.append(Hec(server))
        yield collectors[0]
