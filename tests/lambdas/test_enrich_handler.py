from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from handler import MalformedHead, process
from logic import load_reference

from tests.lambdas.fake_kinesis import FakeKinesis

Recorded = Callable[[str], list[dict[str, Any]]]
REFERENCE = load_reference()


def run(records: list[dict[str, Any]], kinesis: FakeKinesis) -> list[str]:
    answer = process(
        records, kinesis=kinesis, stream="out", reference=REFERENCE, pause=lambda _: None
    )
    assert answer.keys() == {"batchItemFailures"}
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def sequence_number(record: dict[str, Any]) -> str:
    return record["kinesis"]["sequenceNumber"]


def source_event(record: dict[str, Any]) -> dict[str, Any]:
    return json.loads(base64.b64decode(record["kinesis"]["data"]))


def test_every_flight_is_written_enriched_under_its_carrier_whose_flights_share_a_record(
    recorded: Recorded,
) -> None:
    records, kinesis = recorded("kinesis_flights"), FakeKinesis()

    assert run(records, kinesis) == []
    assert [e["event_id"] for e in kinesis.events] == [source_event(r)["event_id"] for r in records]
    carriers = [source_event(record)["carrier"] for record in records]
    assert [record["PartitionKey"] for record in kinesis.records] == list(dict.fromkeys(carriers))
    assert kinesis.events[0]["airline"] == "United Air Lines Inc."
    assert [event["cancelled"] for event in kinesis.events].count(True) == 2
    for record, event in zip(records, kinesis.events, strict=True):
        assert source_event(record).items() <= event.items()


def test_what_precedes_a_malformed_record_is_written_and_the_record_reported(
    recorded: Recorded,
) -> None:
    records, kinesis = recorded("kinesis_flights_malformed_inside"), FakeKinesis()

    assert run(records, kinesis) == [sequence_number(records[1])]
    assert len(kinesis.records) == 1


def test_a_batch_that_begins_malformed_fails_whole_so_that_it_is_split(recorded: Recorded) -> None:
    kinesis = FakeKinesis()

    with pytest.raises(MalformedHead, match="1 follow it"):
        run(recorded("kinesis_flights_malformed_first"), kinesis)
    assert kinesis.records == []


def test_a_malformed_record_alone_is_reported(recorded: Recorded) -> None:
    records, kinesis = recorded("kinesis_flights_malformed_alone"), FakeKinesis()

    assert run(records, kinesis) == [sequence_number(records[0])]
    assert kinesis.requests == []


@pytest.mark.parametrize("malformed", [{0}, {3}, {4}, {0, 1}, {0, 4}, {1, 2, 3}, {0, 1, 2, 3, 4}])
def test_bisecting_leaves_each_malformed_record_alone_and_writes_the_others_once(
    malformed: set[int], recorded: Recorded
) -> None:
    records, kinesis = recorded("kinesis_flights"), FakeKinesis()
    for index in malformed:
        records[index]["kinesis"]["data"] = base64.b64encode(b"?").decode()

    discarded = _as_the_mapping_does(records, kinesis)

    assert discarded == [[sequence_number(records[index])] for index in sorted(malformed)]
    good = [r for index, r in enumerate(records) if index not in malformed]
    assert [e["event_id"] for e in kinesis.events] == [source_event(r)["event_id"] for r in good]


def _as_the_mapping_does(records: list[dict[str, Any]], kinesis: FakeKinesis) -> list[list[str]]:
    """Bisect, partial batch response, retries=3, as documented; return the discarded batches."""
    discarded: list[list[str]] = []
    pending, retries = [records], 3
    while pending:
        batch = pending.pop(0)
        try:
            failed = run(copy.deepcopy(batch), kinesis)
        except MalformedHead:
            middle = len(batch) // 2
            pending[:0] = [batch[:middle], batch[middle:]]
            continue
        if not failed:
            continue
        rest = batch[[sequence_number(r) for r in batch].index(failed[0]) :]
        if len(rest) == len(batch):
            if retries == 0:
                discarded.append([sequence_number(r) for r in batch])
                retries = 3
                continue
            retries -= 1
        pending.insert(0, rest)
    return discarded


def test_the_first_record_that_cannot_be_written_is_reported(recorded: Recorded) -> None:
    records = recorded("kinesis_flights")
    kinesis = FakeKinesis(lambda request, entry: entry["PartitionKey"] == "AA")

    assert run(records, kinesis) == [
        sequence_number(next(r for r in records if source_event(r)["carrier"] == "AA"))
    ]


def test_an_unwritable_record_before_a_malformed_one_is_the_one_reported(
    recorded: Recorded,
) -> None:
    records = recorded("kinesis_flights_malformed_inside")

    assert run(records, FakeKinesis(lambda request, entry: True)) == [sequence_number(records[0])]


@pytest.mark.parametrize(
    "changes",
    [
        {"carrier": "x" * 257},
        {"carrier": "\ud800"},
        {"note": "x" * (1 << 20)},
        {"note": float("inf")},
    ],
)
def test_a_flight_that_cannot_be_a_record_is_malformed(
    changes: dict[str, Any], recorded: Recorded
) -> None:
    records, kinesis = recorded("kinesis_flights")[:1], FakeKinesis()
    text = json.dumps(source_event(records[0]) | changes).replace("Infinity", "1e999")
    records[0]["kinesis"]["data"] = base64.b64encode(text.encode()).decode()

    assert run(records, kinesis) == [sequence_number(records[0])]
    assert kinesis.requests == []
