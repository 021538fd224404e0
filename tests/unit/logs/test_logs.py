"""Log groups: within their retention and a bound."""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

import pytest

from headrace.services.logs import checks
from headrace.services.logs import patches as mended
from headrace.services.logs.patches import keep_log_groups_within
from tests.support.moto_lab import MotoLab

DAY_S = 86_400


@pytest.fixture
def logs(lab: MotoLab) -> Any:
    client = lab.client("logs")
    client.create_log_group(logGroupName="g")
    client.create_log_stream(logGroupName="g", logStreamName="s")
    return client


@pytest.fixture(autouse=True)
def _bounds() -> Any:
    yield
    keep_log_groups_within(events=25_000, mib=16)


def put(lab: MotoLab, *messages: str, stream: str = "s") -> None:
    now_ms = lab.clock.now_ms()
    lab.client("logs").put_log_events(
        logGroupName="g", logStreamName=stream,
        logEvents=[{"timestamp": now_ms, "message": message} for message in messages],
    )  # fmt: skip


def lines(lab: MotoLab) -> list[str]:
    return [e["message"] for e in lab.client("logs").filter_log_events(logGroupName="g")["events"]]


def test_events_go_when_the_group_s_retention_is_over(lab: MotoLab, logs: Any):
    logs.put_retention_policy(logGroupName="g", retentionInDays=1)
    put(lab, "old")
    lab.clock.advance(DAY_S - 60)
    put(lab, "new")
    lab.clock.advance(120)
    assert lines(lab) == ["old", "new"]
    lab.retention.step()
    assert lines(lab) == ["new"]
    assert logs.describe_log_groups()["logGroups"][0]["storedBytes"] == 3


def test_without_a_retention_events_stay(lab: MotoLab, logs: Any):
    put(lab, "old")
    lab.clock.advance(400 * DAY_S)
    lab.retention.step()
    assert lines(lab) == ["old"]


def test_a_group_holds_so_many_events_the_oldest_go(lab: MotoLab, logs: Any):
    keep_log_groups_within(events=5, mib=16)
    logs.create_log_stream(logGroupName="g", logStreamName="s2")
    put(lab, "1", "2", "3")
    put(lab, "4", "5", stream="s2")
    put(lab, "6", "7")
    assert sorted(lines(lab)) == ["3", "4", "5", "6", "7"]
    put(lab, *"abcdefgh", stream="s2")
    assert sorted(lines(lab)) == [*"defgh"]


def test_a_group_holds_so_many_bytes(lab: MotoLab, logs: Any):
    keep_log_groups_within(events=25_000, mib=1)
    for n in range(8):
        put(lab, f"{n}" * 300_000)
    assert [line[0] for line in lines(lab)] == ["5", "6", "7"]


def test_streams_without_events_are_bounded_and_others_stay(
    lab: MotoLab, logs: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mended, "MOST_STREAMS", 4)
    put(lab, "kept")
    for n in range(10):
        logs.create_log_stream(logGroupName="g", logStreamName=f"n{n}")
    lab.restart()
    names = [s["logStreamName"] for s in logs.describe_log_streams(logGroupName="g")["logStreams"]]
    assert names == ["n7", "n8", "n9", "s"]


def test_groups_and_streams_last_and_events_do_not(lab: MotoLab, logs: Any):
    logs.put_retention_policy(logGroupName="g", retentionInDays=3)
    put(lab, "gone")
    before = logs.describe_log_streams(logGroupName="g")["logStreams"][0]["creationTime"]
    lab.restart()
    assert logs.describe_log_groups()["logGroups"][0]["retentionInDays"] == 3
    assert logs.describe_log_streams(logGroupName="g")["logStreams"][0]["creationTime"] == before
    assert lines(lab) == []
    put(lab, "again")
    assert lines(lab) == ["again"]


def test_results_of_queries_are_bounded(lab: MotoLab, logs: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checks, "MOST_QUERIES", 3)
    ids = [
        logs.start_query(logGroupName="g", startTime=0, endTime=2**31, queryString="fields @message")["queryId"]
        for _ in range(6)
    ]  # fmt: skip
    assert logs.get_query_results(queryId=ids[-1])["status"] == "Complete"
    from moto.logs.models import logs_backends

    assert list(logs_backends["000000000000"]["us-east-1"].queries) == ids[-3:]


def test_saved_queries_are_stored_changed_found_by_prefix_and_deleted(lab: MotoLab, logs: Any):
    ids = [
        logs.put_query_definition(name=name, queryString="fields @message")["queryDefinitionId"]
        for name in ("b/one", "a", "b/two")
    ]
    lab.clock.advance(60)
    logs.put_query_definition(
        queryDefinitionId=ids[0], name="b/one", queryString="limit 5", logGroupNames=["g"]
    )

    first = logs.describe_query_definitions(queryDefinitionNamePrefix="b/", maxResults=1)
    assert first["queryDefinitions"] == [
        {
            "queryLanguage": "CWLI",
            "queryDefinitionId": ids[0],
            "name": "b/one",
            "queryString": "limit 5",
            "lastModified": lab.clock.now_ms(),
            "logGroupNames": ["g"],
        }
    ]
    rest = logs.describe_query_definitions(
        queryDefinitionNamePrefix="b/", nextToken=first["nextToken"]
    )
    assert [one["queryDefinitionId"] for one in rest["queryDefinitions"]] == [ids[2]]
    assert "nextToken" not in rest
    assert logs.delete_query_definition(queryDefinitionId=ids[1]) == {
        "success": True,
        "ResponseMetadata": mock.ANY,
    }
    assert len(logs.describe_query_definitions()["queryDefinitions"]) == 2
    for call in (logs.delete_query_definition, replace_query(logs)):
        with pytest.raises(logs.exceptions.ResourceNotFoundException):
            call(queryDefinitionId=ids[1])


def replace_query(logs: Any) -> Any:
    return functools.partial(logs.put_query_definition, name="a", queryString="limit 1")
