"""FilterLogEvents finds a page, and no more than a page, of the events of a group in the order of their times."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab


@pytest.fixture
def logs(lab: MotoLab) -> Any:
    client = lab.client("logs")
    client.create_log_group(logGroupName="g")
    return client


def put(lab: MotoLab, logs: Any, stream: str, *events: tuple[int, str]) -> None:
    logs.create_log_stream(logGroupName="g", logStreamName=stream)
    now_ms = lab.clock.now_ms()
    for at, message in events:  # each in a request of its own: their times need no order
        logs.put_log_events(
            logGroupName="g",
            logStreamName=stream,
            logEvents=[{"timestamp": now_ms + at, "message": message}],
        )


def asked(logs: Any, **params: Any) -> list[str]:
    """Return the messages of all pages."""
    found: list[str] = []
    while True:
        answer = logs.filter_log_events(**{"logGroupName": "g", **params})
        assert answer["searchedLogStreams"] == []
        found += [event["message"] for event in answer["events"]]
        if "nextToken" not in answer:
            return found
        params["nextToken"] = answer["nextToken"]


def test_streams_are_interleaved_by_time_whatever_the_page(lab: MotoLab, logs: Any):
    put(lab, logs, "a", (3, "a3"), (1, "a1"), (1, "a1 again"), (5, "a5"))
    put(lab, logs, "b", (2, "b2"), (1, "b1"), (4, "b4"))
    whole = ["a1", "a1 again", "b1", "b2", "a3", "b4", "a5"]
    for limit in (1, 2, 3, 6, 7, 8):
        assert asked(logs, limit=limit) == whole, limit
    assert asked(logs, limit=2, filterPattern="a1") == ["a1", "a1 again"]
    now_ms = lab.clock.now_ms()
    assert asked(logs, startTime=now_ms + 2, endTime=now_ms + 4) == ["b2", "a3", "b4"]
    assert asked(logs, logStreamNames=["b"], limit=1) == ["b1", "b2", "b4"]
    assert asked(logs, logStreamNamePrefix="a") == ["a1", "a1 again", "a3", "a5"]
    assert asked(logs, logStreamNamePrefix="none") == []
    arn = logs.describe_log_groups()["logGroups"][0]["logGroupArn"]
    by_arn = logs.filter_log_events(logGroupIdentifier=arn)["events"]
    assert [event["message"] for event in by_arn] == whole


def test_events_that_come_between_pages_are_neither_lost_nor_doubled(lab: MotoLab, logs: Any):
    put(lab, logs, "a", (1, "one"), (3, "three"))
    first = logs.filter_log_events(logGroupName="g", limit=1)
    put(lab, logs, "b", (2, "two"), (0, "too late for this search"))
    assert asked(logs, nextToken=first["nextToken"]) == ["two", "three"]


def test_what_is_no_page_of_the_group_has_no_events(lab: MotoLab, logs: Any):
    put(lab, logs, "a", (1, "one"))
    for token in ("x", "h@1@1", "g@1", "g@a@b", f"g@{'9' * 5000}@1"):
        answer = logs.filter_log_events(logGroupName="g", nextToken=token)
        assert (answer["events"], "nextToken" in answer) == ([], False)
    with pytest.raises(ClientError, match="InvalidParameterException"):
        logs.filter_log_events(logGroupName="g", logStreamNames=["a"], logStreamNamePrefix="a")
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        logs.filter_log_events(logGroupName="none")


def test_a_page_is_bounded_in_its_bytes_and_in_memory(lab: MotoLab, logs: Any):
    logs.create_log_stream(logGroupName="g", logStreamName="s")
    now_ms, large = lab.clock.now_ms(), "x" * 200_000
    for batch in range(3):
        events = [{"timestamp": now_ms + batch, "message": "m"}] * 5_000
        logs.put_log_events(logGroupName="g", logStreamName="s", logEvents=events)
    for _ in range(6):
        events = [{"timestamp": now_ms + 9, "message": large}]
        logs.put_log_events(logGroupName="g", logStreamName="s", logEvents=events)
    found = logs.filter_log_events(logGroupName="g", startTime=now_ms + 9)
    assert (len(found["events"]), "nextToken" in found) == (5, True)
    assert len(asked(logs, startTime=now_ms + 9)) == 6

    from moto.logs.models import logs_backends

    backend = logs_backends["000000000000"]["us-east-1"]
    assert len(backend.groups["g"].streams["s"].events) == 15_006
    logs.filter_log_events(logGroupName="g", limit=5)
    tracemalloc.start()
    try:
        assert len(logs.filter_log_events(logGroupName="g", limit=5)["events"]) == 5
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 600_000  # no dictionary for each of 15,006 events
