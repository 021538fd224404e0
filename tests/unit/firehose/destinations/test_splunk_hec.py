"""Splunk: what HEC is sent, that only an acknowledgement counts, and AWS's code for each way to fail.

Source: docs.aws.amazon.com/firehose/latest/dev/monitoring-with-cloudwatch-logs.html#monitoring-splunk-errors and
basic-deliver.html (documented).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.services.firehose.destinations.common import DeliveryRefusal
from headrace.services.firehose.destinations.exchange import Stopped
from headrace.services.firehose.destinations.splunk import EVENT, RAW, Collector
from tests.support.clock import FakeClock
from tests.support.endpoint import answer, json_answer
from tests.support.hec import TOKEN, Hec, hec, says
from tests.support.tls import make_certificate

CHANNEL = "6c1b1d4e-0000-4000-8000-000000000000"
DATAS = [b'{"event":1}', b'{"event":2}\n']


@pytest.fixture
def splunk() -> Iterator[Hec]:
    with hec() as running:
        yield running


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def deliver(
    url: str,
    clock: FakeClock,
    *,
    path: str = RAW,
    token: str = TOKEN,
    stopping: threading.Event | None = None,
    answer_within_s: float = 10,
) -> DeliveryRefusal | None:
    collector = Collector(
        url, path, token, CHANNEL, 180, clock, stopping or threading.Event(), answer_within_s
    )
    return collector.deliver(DATAS)


def code(found: DeliveryRefusal | None) -> str:
    assert found is not None
    assert found.message
    return found.code


@pytest.mark.parametrize("path", [RAW, EVENT])
def test_bytes_are_joined_as_they_are(splunk: Hec, clock: FakeClock, path: str):
    assert deliver(splunk.url, clock, path=path) is None
    assert splunk.taken == [(path, b'{"event":1}{"event":2}\n')]
    assert splunk.channels == {CHANNEL}


def test_a_slash_at_the_end_of_the_endpoint_is_none(splunk: Hec, clock: FakeClock):
    assert deliver(f"{splunk.url}/", clock) is None


def test_it_waits_for_the_acknowledgement(splunk: Hec, clock: FakeClock):
    splunk.polls_needed = 100
    began_s = clock.monotonic_s()
    assert deliver(splunk.url, clock) is None
    assert splunk.polls == 100
    assert clock.monotonic_s() - began_s == pytest.approx(99)


def test_an_acknowledgement_that_is_withheld_times_out(splunk: Hec, clock: FakeClock):
    splunk.polls_needed = -1
    began_s = clock.monotonic_s()
    found = deliver(splunk.url, clock)
    assert code(found) == "Splunk.AckTimeout"
    assert found is not None
    assert found.is_retryable
    assert clock.monotonic_s() - began_s == pytest.approx(180)
    assert len(splunk.taken) == 1  # Splunk may have it all the same


def test_an_ack_that_fails_is_asked_for_again(splunk: Hec, clock: FakeClock):
    splunk.ack_refusals = [
        lambda _: says(503, 9, "Server is busy"),
        lambda _: answer(200, "no json"),
        lambda _: json_answer(200, {"acks": []}),
        lambda _: json_answer(200, {"acks": {"0": "yes"}}),
    ]
    splunk.polls_needed = 5
    assert deliver(splunk.url, clock) is None
    assert splunk.polls == 5


def test_another_node_behind_a_proxy_knows_no_channel(splunk: Hec, clock: FakeClock):
    splunk.ack_refusals = [lambda _: says(400, 11, "Invalid data channel")]
    found = deliver(splunk.url, clock)
    assert code(found) == "Splunk.ProxyWithoutStickySessions"


def test_without_acknowledgements_nothing_counts(splunk: Hec, clock: FakeClock):
    splunk.has_acks = False
    assert code(deliver(splunk.url, clock)) == "Splunk.DisabledAck"


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (403, 1, "Splunk.DisabledToken"),
        (401, 2, "Splunk.InvalidToken"),
        (403, 4, "Splunk.InvalidToken"),
        (400, 5, "Splunk.InvalidDataFormat"),
        (400, 6, "Splunk.InvalidDataFormat"),
        (400, 7, "Splunk.InvalidIndex"),
        (500, 8, "Splunk.ServerError"),
        (503, 9, "Splunk.ServerError"),
        (400, 14, "Splunk.DisabledAck"),
        (401, 99, "Splunk.InvalidToken"),
        (404, 99, "Splunk.ServerError"),
    ],
)
def test_the_code_of_each_refusal(
    splunk: Hec, clock: FakeClock, status: int, said: int, expected: str
):
    splunk.refusals = [lambda _: says(status, said, "no")]
    assert code(deliver(splunk.url, clock)) == expected
    assert splunk.taken == []


def test_a_wrong_token(splunk: Hec, clock: FakeClock):
    assert code(deliver(splunk.url, clock, token="other")) == "Splunk.InvalidToken"


def test_connections_that_fail(splunk: Hec, clock: FakeClock):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert code(deliver(f"http://127.0.0.1:{port}", clock)) == "Splunk.InvalidEndpoint"
    splunk.refusals = [lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
    assert code(deliver(splunk.url, clock)) == "Splunk.ConnectionClosed"
    splunk.refusals = [splunk.server.hang]
    assert code(deliver(splunk.url, clock, answer_within_s=0.3)) == "Splunk.ConnectionTimeout"
    splunk.refusals = [lambda _: b"hello"]
    assert code(deliver(splunk.url, clock)) == "Splunk.ServerError"


def test_a_certificate_of_ones_own_is_trusted_when_it_is_named(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
):
    path, tls = make_certificate(tmp_path)
    with hec(tls) as splunk:
        assert code(deliver(splunk.url, clock)) == "Splunk.SSLUnverified"
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        assert deliver(splunk.url, clock) is None
        assert len(splunk.taken) == 1


def test_a_cloud_that_stops_waits_for_no_acknowledgement(splunk: Hec, clock: FakeClock):
    stopping = threading.Event()
    splunk.ack_refusals = [lambda _: (stopping.set(), says(503, 9, "busy"))[1]]
    with pytest.raises(Stopped):
        deliver(splunk.url, clock, stopping=stopping)
