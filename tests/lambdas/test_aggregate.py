from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lambdas.fake_kinesis import taken_apart
from tests.lambdas.folders import load, load_module
from tests.lambdas.test_enrich_handler import Recorded

HANDLER, LOGIC = load("aggregate")
_AGGREGATION = load_module("enrich", "aggregation")
aggregated, WHOLE, EACH = _AGGREGATION.aggregated, _AGGREGATION.WHOLE_BYTES, _AGGREGATION.EACH_BYTES
WINDOW = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:05:00Z"}


class FakeTable:
    """Keeps items; leaves the last of the first requests unprocessed."""

    def __init__(self, refusals: int = 0) -> None:
        self.items: list[dict[str, Any]] = []
        self._refusals = refusals

    def batch_write_item(self, *, RequestItems: dict[str, Any]) -> dict[str, Any]:
        ((table, requests),) = RequestItems.items()
        assert len(requests) <= 25
        refused = requests[-1:] if self._refusals else []
        self._refusals -= bool(refused)
        self.items.extend(r["PutRequest"]["Item"] for r in requests[: len(requests) - len(refused)])
        return {"UnprocessedItems": {table: refused} if refused else {}}


def event(records: list[dict[str, Any]], state: dict[str, Any], *, final: bool) -> dict[str, Any]:
    return {"Records": records, "window": WINDOW, "state": state, "shardId": "shardId-7",
            "isFinalInvokeForWindow": final, "isWindowTerminatedEarly": False}  # fmt: skip


def run(given: dict[str, Any], table: FakeTable) -> dict[str, Any]:
    answer = HANDLER.process(given, dynamodb=table, table="t", pause=lambda _: None)
    assert answer.keys() == {"state"}
    return answer["state"]


def test_departures_are_counted_from_batch_to_batch_and_written_at_the_end(
    recorded: Recorded,
) -> None:
    records, table = recorded("kinesis_flights"), FakeTable()
    half = len(records) // 2
    state = run(event(records[:half], {}, final=False), table)
    state = run(event(records[half:], state, final=False), table)
    assert table.items == []
    assert run(event([], state, final=True), table) == state

    flights = [json.loads(base64.b64decode(r["kinesis"]["data"])) for r in records]
    departed = [f["carrier"] for f in flights if f["dep_time"] is not None]
    counts = {i["carrier"]["S"]: int(i["departures"]["N"]) for i in table.items}
    assert counts == {carrier: departed.count(carrier) for carrier in departed}
    assert len(departed) < len(flights)
    assert table.items[0]["window"] == {"S": "2026-01-01T00:00:00Z"}
    assert table.items[0]["carrier_shard"]["S"].endswith("#shardId-7")


def test_a_malformed_record_is_counted_apart(recorded: Recorded) -> None:
    state = run(event(recorded("kinesis_flights_malformed_inside"), {}, final=False), FakeTable())
    assert state["malformed"] == 1


def test_what_dynamodb_refuses_is_written_again() -> None:
    table = FakeTable(refusals=2)
    departures = {f"C{number:02}": 1 for number in range(30)}
    run(event([], {"departures": departures, "malformed": 0}, final=True), table)
    assert sorted(i["carrier"]["S"] for i in table.items) == sorted(departures)


def test_a_table_that_refuses_to_the_end_fails_the_invocation() -> None:
    with pytest.raises(RuntimeError, match="1 items could not be written"):
        run(event([], {"departures": {"UA": 1}, "malformed": 0}, final=True), FakeTable(99))


@given(
    st.lists(st.binary(max_size=20) | st.just(b'{"carrier":"UA","dep_time":5}')), st.integers(0, 9)
)
def test_the_state_does_not_depend_on_how_records_are_batched(
    payloads: list[bytes], cut: int
) -> None:
    whole = LOGIC.add({}, payloads)
    assert LOGIC.add(LOGIC.add({}, payloads[:cut]), payloads[cut:]) == whole
    assert sum(whole["departures"].values()) + whole["malformed"] == len(payloads)


def test_flights_that_share_a_record_are_counted_each() -> None:
    def record(data: bytes) -> dict[str, Any]:
        return {"kinesis": {"data": base64.b64encode(data).decode()}}

    flights = [json.dumps({"carrier": c, "dep_time": 600}).encode() for c in ("UA", "UA", "AA")]
    shared = aggregated("UA", flights[:2])
    # What only begins like one is a record as it is, and no flight.
    records = [record(shared), record(flights[2]), record(shared[:-1])]

    answer = run(event(records, {}, final=False), FakeTable())

    assert answer == {"departures": {"UA": 2, "AA": 1}, "malformed": 1}


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=20), st.text(min_size=1, max_size=9))
def test_what_enrich_packs_is_taken_apart(payloads: list[bytes], key: str) -> None:
    packed = aggregated(key, payloads)
    assert taken_apart(packed) == payloads
    assert len(packed) <= sum(map(len, payloads)) + len(key.encode()) + WHOLE + EACH * len(payloads)
