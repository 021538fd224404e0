"""The report outlasts the cloud: kept in the data directory, bounded, and gone when it is cleared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.permissions.decisions import report
from headrace.permissions.decisions.report import REPORT_FILE, report_of
from headrace.testing.clock import MovableClock
from tests.support.cloud import InProcessCloud
from tests.support.iam import allow, as_role, make_role

RECORDS = [{"Data": b"1", "PartitionKey": "a"}]


def denied(cloud: InProcessCloud) -> list[dict[str, Any]]:
    return report_of(cloud.cloud.decisions)["denied"]


def put_once(cloud: InProcessCloud) -> None:
    as_role(cloud, "putter", "kinesis").put_records(StreamName="flights", Records=RECORDS)


def test_a_report_goes_on_where_the_last_cloud_left_it(tmp_path: Path):
    clock = MovableClock()
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        cloud.client("kinesis").create_stream(StreamName="flights", ShardCount=1)
        make_role(cloud, "putter", allow("kinesis:ListStreams", "*"))
        put_once(cloud)
        (first,) = denied(cloud)
    clock.advance(60)
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        assert denied(cloud) == [first]
        put_once(cloud)
        (second,) = denied(cloud)
        assert (second["count"], second["first"]) == (2, first["first"])
        assert second["last"] > first["last"]


def test_what_waits_to_be_judged_is_judged_by_the_next_cloud(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        cloud.client("kinesis").create_stream(StreamName="flights", ShardCount=1)
        make_role(cloud, "putter")
        put_once(cloud)
        decisions = cloud.cloud.decisions
        entries = [
            entry for entry in decisions.list_noted() if entry.access.action == "kinesis:PutRecords"
        ]
        # As if it had come after the last look.
        entries[0].pending, entries[0].denied = entries[0].pending + entries[0].denied, 0
        decisions.judge.changes += 1
    with InProcessCloud(tmp_path / "data") as cloud:
        (row,) = denied(cloud)
        assert (row["action"], row["count"]) == ("kinesis:PutRecords", 1)


def test_a_cleared_report_does_not_come_back(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        cloud.client("kinesis").create_stream(StreamName="flights", ShardCount=1)
        make_role(cloud, "putter")
        put_once(cloud)
        assert denied(cloud)
        cloud.cloud.report.write()
        assert (tmp_path / "data" / REPORT_FILE).exists()
        cloud.cloud.decisions.clear()
        assert not (tmp_path / "data" / REPORT_FILE).exists()
    with InProcessCloud(tmp_path / "data") as cloud:
        assert denied(cloud) == []


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b'{"form":2,"identities":[],"entries":[],"unknown":[]}',
     b'{"form":1,"identities":[],"entries":[[0,"a","b","",{},0,0,1,0,0,0,0,"",false]],"unknown":[]}'],
)  # fmt: skip
def test_a_damaged_file_begins_a_new_report(
    tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / REPORT_FILE).write_bytes(text)
    with InProcessCloud(tmp_path / "data") as cloud:
        assert denied(cloud) == []
    assert "a new report begins" in caplog.text


def test_of_too_many_entries_the_last_used_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(report, "MOST_KEPT", 2)
    clock = MovableClock()
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        make_role(cloud, "putter")
        kinesis = as_role(cloud, "putter", "kinesis")
        for call in (kinesis.list_streams, kinesis.describe_limits, kinesis.list_streams):
            clock.advance(10)
            call()
            denied(cloud)
        clock.advance(10)
        as_role(cloud, "putter", "sqs").list_queues()
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        assert {row["action"] for row in denied(cloud)} == {
            "kinesis:ListStreams",
            "sqs:ListQueues",
        }
