"""The rules for failing batches, as a calculation."""

from __future__ import annotations

import json
from collections import deque

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.ports import StreamRecord
from headrace.services.lambda_.mappings.batch import (
    Answer,
    Batch,
    FailedFrom,
    FailureRules,
    Succeeded,
    Verdict,
    count_fitting,
    decide_batch,
    read_answer,
    split_expired,
)
from headrace.services.lambda_.mappings.checks import (
    build_kinesis_event,
    count_event_bytes,
    count_overhead_bytes,
)


def records(count: int, *, arrival_ms: int = 0) -> tuple[StreamRecord, ...]:
    return tuple(
        StreamRecord(f"{n:056d}", f"key-{n}", b"data", arrival_ms + n) for n in range(count)
    )


def numbers(batch: Batch | None) -> list[int]:
    return [] if batch is None else [int(record.sequence_number) for record in batch.records]


BISECT = FailureRules(maximum_retries=2, bisect=True)
TWICE = FailureRules(maximum_retries=2)
REPORT = FailureRules(report_item_failures=True)


# --- judge ------------------------------------------------------------------------------------


def test_success_finishes_the_batch() -> None:
    batch = Batch(records(3))
    assert decide_batch(batch, Succeeded(), TWICE) == Verdict(done=batch.records[-1])


def test_a_failed_batch_is_tried_again_whole_with_growing_delays() -> None:
    first = decide_batch(Batch(records(3)), FailedFrom(0), TWICE)
    assert numbers(first.rest[0]) == [0, 1, 2]
    second = decide_batch(first.rest[0], FailedFrom(0), TWICE)
    assert 0 < first.delay_s < second.delay_s


def test_a_batch_is_given_up_after_its_retries() -> None:
    batch, invocations = Batch(records(2)), 0
    while True:
        invocations += 1
        verdict = decide_batch(batch, FailedFrom(0), TWICE)
        if verdict.discarded:
            break
        batch = verdict.rest[0]
    assert invocations == 3
    assert numbers(verdict.discarded) == [0, 1]
    assert verdict.discarded.attempts == 3


def test_no_retries_gives_up_at_once() -> None:
    assert decide_batch(Batch(records(1)), FailedFrom(0), FailureRules(maximum_retries=0)).discarded


def test_without_a_limit_a_batch_is_never_given_up() -> None:
    batch = Batch(records(1), retries=1_000_000)
    verdict = decide_batch(batch, FailedFrom(0), FailureRules())
    assert verdict.discarded is None
    assert verdict.delay_s == 60


def test_a_partial_failure_finishes_what_is_before_the_lowest_failure() -> None:
    verdict = decide_batch(Batch(records(5)), FailedFrom(3), TWICE)
    assert verdict.done == records(5)[2]
    assert [numbers(batch) for batch in verdict.rest] == [[3, 4]]


def test_bisect_halves_a_failed_batch_and_uses_up_no_retry() -> None:
    verdict = decide_batch(Batch(records(5)), FailedFrom(0), BISECT)
    assert [numbers(batch) for batch in verdict.rest] == [[0, 1], [2, 3, 4]]
    assert [batch.retries for batch in verdict.rest] == [0, 0]
    assert verdict.delay_s == 0


def test_bisect_splits_a_partial_failure_at_the_lowest_failure() -> None:
    verdict = decide_batch(Batch(records(5)), FailedFrom(2), BISECT)
    assert verdict.done == records(5)[1]
    assert [numbers(batch) for batch in verdict.rest] == [[2, 3, 4]]


def test_bisect_retries_a_single_record_then_gives_it_up() -> None:
    batch = Batch(records(1))
    for _ in range(2):
        batch = decide_batch(batch, FailedFrom(0), BISECT).rest[0]
    assert decide_batch(batch, FailedFrom(0), BISECT).discarded == Batch(records(1), 2, 3)


@settings(max_examples=200)
@given(
    st.integers(1, 40),
    st.sets(st.integers(0, 39), max_size=6),
    st.booleans(),
    st.integers(0, 3),
)
def test_with_bisect_exactly_the_poison_records_are_given_up(
    count: int, poison: set[int], partial: bool, maximum_retries: int
) -> None:
    """Whatever the poison: every record ends, in order, and no good one is given up."""
    rules = FailureRules(maximum_retries=maximum_retries, bisect=True)
    queue: deque[Batch] = deque([Batch(records(count))])
    given_up: list[int] = []
    finished = -1
    while queue:
        batch = queue.popleft()
        places = numbers(batch)
        assert places[0] == finished + 1  # nothing skipped, nothing out of order
        bad = [place for place in places if place in poison]
        answer: Answer = Succeeded()
        if bad:
            answer = FailedFrom(places.index(bad[0]) if partial else 0)
        verdict = decide_batch(batch, answer, rules)
        if verdict.done is not None:
            finished = int(verdict.done.sequence_number)
        if verdict.discarded is not None:
            given_up.extend(numbers(verdict.discarded))
            finished = given_up[-1]
        queue.extendleft(reversed(verdict.rest))
    assert finished == count - 1
    assert given_up == sorted(place for place in poison if place < count)


# --- the function's answer --------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"{}",
        b'{"batchItemFailures":null}',
        b'{"batchItemFailures":[]}',
        b'{"x":1}',
        b"[]",
        b'""',
    ],
)
def test_empty_answers_are_success(payload: bytes) -> None:
    batch = Batch(records(2))
    assert read_answer(payload, function_error=None, batch=batch, rules=REPORT) == Succeeded()


@pytest.mark.parametrize(
    "failures",
    ['[{"itemIdentifier":""}]', '[{"itemIdentifier":null}]', '[{"other":"x"}]', '["x"]', '"x"',
     '[{"itemIdentifier":"999"}]', '[{"itemIdentifier":7}]', "{}"],
)  # fmt: skip
def test_an_identifier_that_the_batch_lacks_fails_all_of_it(failures: str) -> None:
    payload = f'{{"batchItemFailures":{failures}}}'.encode()
    batch = Batch(records(2))
    assert read_answer(payload, function_error=None, batch=batch, rules=REPORT) == FailedFrom(0)


def test_one_unknown_identifier_among_known_ones_fails_all_of_it() -> None:
    failures = [{"itemIdentifier": records(3)[2].sequence_number}, {"itemIdentifier": "nine"}]
    payload = json.dumps({"batchItemFailures": failures}).encode()
    answer = read_answer(payload, function_error=None, batch=Batch(records(3)), rules=REPORT)
    assert answer == FailedFrom(0)


@pytest.mark.parametrize("payload", [b'"ok"', b"7", b"not json", b"[" * 100_000])
def test_an_answer_of_another_shape_fails_the_batch(payload: bytes) -> None:
    batch = Batch(records(2))
    assert read_answer(payload, function_error=None, batch=batch, rules=REPORT) == FailedFrom(0)


def test_the_lowest_of_several_failures_counts() -> None:
    failures = [{"itemIdentifier": records(5)[place].sequence_number} for place in (4, 2, 3)]
    payload = json.dumps({"batchItemFailures": failures}).encode()
    answer = read_answer(payload, function_error=None, batch=Batch(records(5)), rules=REPORT)
    assert answer == FailedFrom(2)


def test_item_failures_are_not_looked_at_unless_asked_for() -> None:
    payload = b'{"batchItemFailures":[{"itemIdentifier":"x"}]}'
    answer = read_answer(
        payload, function_error=None, batch=Batch(records(1)), rules=FailureRules()
    )
    assert answer == Succeeded()


def test_a_function_error_fails_the_batch_whatever_it_says() -> None:
    payload = b'{"batchItemFailures":[]}'
    batch = Batch(records(1))
    assert read_answer(
        payload, function_error="Unhandled", batch=batch, rules=REPORT
    ) == FailedFrom(0)


# --- age and size -----------------------------------------------------------------------------


def test_records_that_are_too_old_are_split_off() -> None:
    batch = Batch(records(4, arrival_ms=1000))
    expired, alive = split_expired(batch, 1_002)
    assert (numbers(expired), numbers(alive)) == ([0, 1], [2, 3])
    assert split_expired(batch, 1_000) == (None, batch)
    expired, alive = split_expired(batch, 9_940_000)
    assert (numbers(expired), alive) == ([0, 1, 2, 3], None)


def test_a_batch_keeps_below_the_payload_limit_but_takes_at_least_one() -> None:
    big = [StreamRecord(str(n), "k", b"x" * 3000, 0) for n in range(5)]

    def count(records: list[StreamRecord], most_records: int, most_bytes: int) -> int:
        return count_fitting(
            records,
            most_records=most_records,
            most_bytes=most_bytes,
            record_bytes=lambda record: count_event_bytes(record, 500),
        )

    assert count(big, 100, 10_000) == 2
    assert count(big, 100, 10) == 1
    assert count(big, 3, 1_000_000) == 3
    assert count([], 3, 1) == 0


@given(
    st.lists(
        st.tuples(st.binary(max_size=300), st.text(st.characters(codec="utf-8"), max_size=20)),
        min_size=1,
        max_size=20,
    )
)
def test_the_size_estimate_is_never_below_the_event(contents: list[tuple[bytes, str]]) -> None:
    place = {
        "stream_arn": "arn:aws:kinesis:ap-southeast-1:000000000000:stream/flights",
        "shard_id": "shardId-000000000000",
        "region": "ap-southeast-1",
        "role_arn": "arn:aws:iam::000000000000:role/functions",
    }
    made = tuple(StreamRecord("4" * 56, key, data, 1_700_000_000_123) for data, key in contents)
    overhead = count_overhead_bytes(**place)
    encoded = msgspec.json.encode(build_kinesis_event(made, **place))
    assert len(encoded) <= sum(count_event_bytes(record, overhead) for record in made) + 64


def test_the_event_is_as_aws_documents_it() -> None:
    record = StreamRecord("495903", "1", b"Hello, this is a test.", 1_545_084_650_987)
    event = build_kinesis_event(
        (record,),
        stream_arn="arn:aws:kinesis:us-east-2:123456789012:stream/lambda-stream",
        shard_id="shardId-000000000006",
        region="us-east-2",
        role_arn="arn:aws:iam::123456789012:role/lambda-role",
    )
    assert event == {
        "Records": [
            {
                "kinesis": {
                    "kinesisSchemaVersion": "1.0",
                    "partitionKey": "1",
                    "sequenceNumber": "495903",
                    "data": "SGVsbG8sIHRoaXMgaXMgYSB0ZXN0Lg==",
                    "approximateArrivalTimestamp": 1545084650.987,
                },
                "eventSource": "aws:kinesis",
                "eventVersion": "1.0",
                "eventID": "shardId-000000000006:495903",
                "eventName": "aws:kinesis:record",
                "invokeIdentityArn": "arn:aws:iam::123456789012:role/lambda-role",
                "awsRegion": "us-east-2",
                "eventSourceARN": "arn:aws:kinesis:us-east-2:123456789012:stream/lambda-stream",
            }
        ]
    }
