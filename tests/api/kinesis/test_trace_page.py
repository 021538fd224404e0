"""`/_headrace/kinesis/trace`: where a queue or a channel stands, and what it did with one record; and the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.aws.calls.operation import service_model
from headrace.aws.protocols.service import NothingToShow
from headrace.cli import trace as trace_module
from headrace.cli.commands import headrace
from headrace.services.kinesis.trace_page import trace_page
from headrace.testing.clock import MovableClock
from tests.api.kinesis.channels.lab import ERRORS, STREAM, ChannelLab
from tests.support.cloud import ACCOUNT, InProcessCloud

if "CreateQueue" not in service_model("kinesis").operation_names:
    pytest.skip("this botocore knows no queues", allow_module_level=True)


@pytest.fixture
def lab(data_dir: Path) -> Any:
    clock = MovableClock()
    with InProcessCloud(data_dir, clock=clock) as cloud:
        lab = ChannelLab(cloud, clock)
        lab.build()
        yield lab


def reports(lab: ChannelLab, **query: str) -> list[dict[str, Any]]:
    return trace_page(lab.cloud.cloud.kinesis).data(query)["consumers"]


def put(lab: ChannelLab, data: bytes) -> str:
    answer = lab.kinesis.put_record(StreamName=STREAM, Data=data, PartitionKey="k")
    return str(answer["SequenceNumber"])


def outcome(lab: ChannelLab, name: str, number: str) -> str:
    (report,) = reports(lab, consumer=name, sequence=number)
    (record,) = report["records"]
    return str(record["outcome"])


def make_queue(lab: ChannelLab) -> str:
    summary = lab.kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    answer = lab.kinesis.create_queue(
        QueueName="jobs",
        StreamConfigurationList=[{"StreamARN": summary["StreamARN"]}],
        QueueAttributes={
            "DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": 2}
        },
    )
    return str(answer["QueueDescription"]["QueueARN"])


def test_a_queue_says_where_a_record_stands(lab: ChannelLab):
    early = put(lab, b"early")
    lab.clock.advance(1)
    queue = make_queue(lab)
    number = put(lab, b"x")
    assert outcome(lab, "jobs", early) == "older than the queue's start"
    assert outcome(lab, "jobs", number) == "visible: never received"
    (record,) = lab.kinesis.receive_queue_records(QueueARN=queue)["QueueRecords"]
    assert outcome(lab, queue, number).startswith(
        "in flight: received 1 times of 2, in flight until"
    )
    (listed,) = reports(lab, consumer="jobs")[0]["records"]
    assert (listed["sequenceNumber"], listed["partitionKey"]) == (number, "k")
    lab.clock.advance(31)
    assert outcome(lab, "jobs", number) == "visible again: received 1 times of 2"
    lab.kinesis.receive_queue_records(QueueARN=queue)
    lab.clock.advance(31)
    assert outcome(lab, "jobs", number) == "dead letter: received 2 times of 2"
    (record,) = lab.kinesis.receive_dead_letter_queue_records(QueueARN=queue)["QueueRecords"]
    entries = [{"ReceiptHandle": record["ReceiptHandle"]}]
    lab.kinesis.acknowledge_dead_letter_queue_records(QueueARN=queue, Entries=entries)
    assert outcome(lab, "jobs", number) == "acknowledged"
    assert reports(lab, consumer="jobs")[0]["records"] == []


def test_a_record_that_has_expired_or_never_was_is_told(lab: ChannelLab):
    make_queue(lab)
    number = put(lab, b"x")
    assert reports(lab, consumer="jobs", sequence=str(int(number) + (1 << 80)))[0]["records"] == []
    assert reports(lab, consumer="jobs", sequence="x")[0]["records"] == []
    with pytest.raises(NothingToShow, match="No queue or channel nobody"):
        reports(lab, consumer="nobody")


def test_a_channel_says_what_became_of_a_record(lab: ChannelLab):
    early = put(lab, b"{}")
    lab.clock.advance(1)
    letters = {"BucketARN": f"arn:aws:s3:::{ERRORS}", "ExpectedBucketOwner": ACCOUNT}
    arn = lab.channel(destination={"DeadLetterQueueS3Configuration": letters})
    good, bad = put(lab, b"{}"), put(lab, b"no json")
    assert outcome(lab, "c", good) == "waits for its object"
    lab.deliver()
    assert outcome(lab, arn, good) == "delivered"
    assert outcome(lab, "c", bad).startswith(
        f"refused, and noted in {ERRORS}: S3.InvalidRecordFormat"
    )
    assert outcome(lab, "c", early).startswith("older than the channel")


def test_the_command_shows_queues_and_channels(lab: ChannelLab, monkeypatch: pytest.MonkeyPatch):
    queue = make_queue(lab)
    number = put(lab, b"x")
    lab.kinesis.receive_queue_records(QueueARN=queue)

    def fetch(_: str, page: str, query: dict[str, str], member: str) -> Any:
        if page.startswith("lambda/") or query["consumer"] == "nobody":
            return None
        return trace_page(lab.cloud.cloud.kinesis).data(query)[member]

    monkeypatch.setattr(trace_module, "_fetch", fetch)
    lab.channel()
    shown = CliRunner().invoke(headrace, ["trace", "jobs"])
    assert shown.exit_code == 0, shown.output
    assert "queue jobs ← flights" in shown.output
    assert "1 in flight" in shown.output
    assert f" {number} 'k'\n    in flight: received 1 times of 2" in shown.output
    shown = CliRunner().invoke(headrace, ["trace", "c", "--sequence", number])
    assert "channel c ← flights" in shown.output
    nobody = CliRunner().invoke(headrace, ["trace", "nobody"])
    assert nobody.exit_code == 1
    assert "There is no mapping, mapped function, queue or channel nobody;" in nobody.output
