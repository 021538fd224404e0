"""Documents for OpenSearch: the indexes' names, the lines of `_bulk`, and what each item's answer means."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from headrace.services.firehose.destinations.exchange import ConnectFailed, Stopped
from headrace.services.firehose.destinations.opensearch import (
    Document,
    compute_us_week,
    cut,
    index_all,
    index_name,
)

ARRIVAL_MS = int(datetime(2016, 2, 25, 13, tzinfo=UTC).timestamp() * 1000)


class Server:
    """A `SearchServer` that keeps the request and answers what it is told."""

    def __init__(self, answer: Callable[[list[dict[str, Any]]], tuple[int, bytes]]) -> None:
        self.answer = answer
        self.lines: list[bytes] = []

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        assert (method, path) == ("POST", "/_bulk")
        assert body.endswith(b"\n")
        self.lines = body.splitlines()
        return self.answer([json.loads(line) for line in self.lines[::2]])


def items(*statuses: int) -> Server:
    """Return a server that answers with these statuses."""

    def answer(_: Any) -> tuple[int, bytes]:
        found = [
            {
                "index": {
                    "status": s,
                    **({"error": {"type": "t", "reason": "r", "index": "i"}} if s >= 300 else {}),
                }
            }
            for s in statuses
        ]
        return 200, json.dumps({"errors": True, "items": found}).encode()

    return Server(answer)


def documents(*sources: bytes) -> list[Document]:
    return [Document("i", f"{place}.0", source) for place, source in enumerate(sources)]


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rotation", "expected"),
    [
        ("NoRotation", "myindex"),
        ("OneHour", "myindex-2016-02-25-13"),
        ("OneDay", "myindex-2016-02-25"),
        # AWS's table says w08, which is ISO's week; its rule for weeks, which stands beside it, gives w09.
        ("OneWeek", "myindex-2016-w09"),
        ("OneMonth", "myindex-2016-02"),
    ],
)
def test_the_names_of_awss_example(rotation: str, expected: str):
    assert index_name("myindex", rotation, ARRIVAL_MS) == expected


def test_a_week_begins_on_sunday_and_the_first_has_the_first_saturday():
    assert compute_us_week(date(2016, 1, 1)) == (2016, 1)  # a Friday
    assert compute_us_week(date(2016, 1, 2)) == (2016, 1)
    assert compute_us_week(date(2016, 1, 3)) == (2016, 2)  # a Sunday
    assert compute_us_week(date(2022, 12, 31)) == (2022, 53)  # a Saturday
    assert compute_us_week(date(2021, 12, 31)) == (
        2022,
        1,
    )  # a Friday, whose Saturday is in the next year
    day = date(1999, 12, 1)
    while day.year < 2031:
        assert (compute_us_week(day) == compute_us_week(day + timedelta(days=1))) == (
            day.weekday() != 5
        )
        day += timedelta(days=1)


# --- lines ------------------------------------------------------------------------------------


def test_an_action_line_and_a_line_for_each_document():
    server = items(201, 201)
    made = [Document("a-2016", "49.0", b' {"x": 1}\n'), Document("b", "", b"{}", type_name="t")]
    assert index_all(server, made) == [None, None]
    assert server.lines == [
        b'{"index": {"_index": "a-2016", "_id": "49.0"}}',
        b'{"x": 1}',
        b'{"index": {"_index": "b", "_type": "t"}}',
        b"{}",
    ]


@pytest.mark.parametrize("source", [b"", b" \n", b'{"a":\n1}', b'{"a":\r1}'])
def test_what_is_not_one_line_is_refused_for_good_and_the_others_go(source: bytes):
    server = items(201, 201)
    first, second, third = index_all(server, documents(b"{}", source, b"[]"))
    assert (first, third) == (None, None)
    assert second is not None
    assert (second.code, second.is_retryable) == ("400", False)
    assert len(server.lines) == 4


def test_nothing_that_fits_asks_nobody():
    server = items()
    assert [r.code for r in index_all(server, documents(b"")) if r] == ["400"]
    assert server.lines == []


def test_a_request_has_ten_mebibytes_at_most():
    assert cut([]) == []
    batches = cut([1_000_000] * 25)
    assert [len(batch) for batch in batches] == [10, 10, 5]
    assert cut([20_000_000, 1]) == [range(1), range(1, 2)]


# --- answers ----------------------------------------------------------------------------------


def test_each_document_has_its_own_answer():
    found = index_all(items(201, 400, 200, 429), documents(b"{}", b"{}", b"{}", b"{}"))
    assert [result and (result.code, result.message) for result in found] == [
        None,
        ("400", '{"type":"t","reason":"r"}'),
        None,
        ("429", '{"type":"t","reason":"r"}'),
    ]
    assert all(result.is_retryable for result in found if result)


@pytest.mark.parametrize("status", [400, 403, 413, 502, 503])
def test_a_request_that_is_refused_whole(status: int):
    found = index_all(Server(lambda _: (status, b'{"error": "no"}')), documents(b"{}", b"{}"))
    assert [(r.code, r.message) for r in found if r] == [(str(status), '{"error": "no"}')] * 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no",
        b"{}",
        b"[]",
        b'{"items": []}',
        b'{"items": [{}]}',
        b'{"items": [{"index": {}}]}',
        b"null",
    ],
)
def test_an_answer_that_is_none_of_bulk_is_no_success(answer: bytes):
    (found,) = index_all(Server(lambda _: (200, answer)), documents(b"{}"))
    assert found is not None
    assert found.code == "500"


def test_a_server_that_is_not_there():
    def fail(_: Any) -> tuple[int, bytes]:
        raise ConnectFailed("No connection to localhost:1.")

    (found,) = index_all(Server(fail), documents(b"{}"))
    assert found is not None
    assert found.is_retryable
    assert "localhost:1" in found.message

    def stop(_: Any) -> tuple[int, bytes]:
        raise Stopped("The cloud stops.")

    with pytest.raises(Stopped):
        index_all(Server(stop), documents(b"{}"))
