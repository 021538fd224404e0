"""The batch tree through the whole cloud: a poison record's story, over a restart, on one screen."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from headrace.aws.calls.http import HttpRequest
from headrace.cli.commands import headrace
from tests.support.cloud import InProcessCloud
from tests.support.server import ServerProcess, wait_until

HANDLER = """
import base64
def handler(event, context):
    data = [base64.b64decode(r["kinesis"]["data"]) for r in event["Records"]]
    if b"poison" in data:
        raise ValueError("cannot digest")
"""


def zipped(source: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("app.py", source)
    return buffer.getvalue()


def make(client: Any) -> tuple[str, list[str]]:
    """Make a stream with a poison record, a mapping that bisects, and a queue; return uuid and numbers."""
    kinesis, lambda_, sqs = client("kinesis"), client("lambda"), client("sqs")
    kinesis.create_stream(StreamName="s", ShardCount=1)
    wait_until(
        lambda: (
            kinesis.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"][
                "StreamStatus"
            ]
            == "ACTIVE"
        )
    )
    arn = kinesis.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]["StreamARN"]
    sqs.create_queue(QueueName="failures")
    lambda_.create_function(
        FunctionName="digest",
        Runtime="python3.11",
        Handler="app.handler",
        Role="arn:aws:iam::000000000000:role/r",
        Code={"ZipFile": zipped(HANDLER)},
    )
    records = [{"Data": d, "PartitionKey": "k"} for d in (b"a", b"b", b"poison", b"d", b"skip")]
    put = kinesis.put_records(StreamName="s", Records=records)
    uuid = lambda_.create_event_source_mapping(
        FunctionName="digest",
        EventSourceArn=arn,
        StartingPosition="TRIM_HORIZON",
        MaximumRetryAttempts=1,
        BisectBatchOnFunctionError=True,
        FilterCriteria={"Filters": [{"Pattern": '{"data": [{"anything-but": "skip"}]}'}]},
        DestinationConfig={
            "OnFailure": {"Destination": "arn:aws:sqs:us-east-1:000000000000:failures"}
        },
    )["UUID"]
    return uuid, [one["SequenceNumber"] for one in put["Records"]]


def report(cloud: InProcessCloud, query: str) -> dict[str, Any]:
    request = HttpRequest("GET", "/_headrace/lambda/trace", query)
    response = cloud.handle(request)
    assert isinstance(response.body, bytes)
    (found,) = json.loads(response.body)["mappings"]
    return found


def test_a_poison_records_story_is_kept_and_told(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path) as cloud:
        uuid, numbers = make(cloud.client)

        def outcome(place: int) -> str:
            return report(cloud, f"mapping={uuid}&sequence={numbers[place]}")["outcome"]

        wait_until(lambda: outcome(3) == "success", what="the record after the poison")
        assert outcome(0) == outcome(1) == "success"
        assert outcome(4) == "filtered"
        assert outcome(2).startswith("sent to the failure destination: RetryAttemptsExhausted; arn")
    # The trees outlive the cloud.
    with InProcessCloud(tmp_path) as cloud:
        story = report(cloud, f"mapping=digest&sequence={numbers[2]}")
        (tree,) = story["trees"]
        depth, node = 0, tree
        while node["parts"]:
            assert node["disposal"] == "bisected"
            (node,) = node["parts"]
            depth += 1
        assert depth == 2
        assert node["records"] == 1
        assert [a["outcome"] for a in node["attempts"]] == ["function error"] * 2
        assert "cannot digest" in node["attempts"][0]["detail"]


def test_the_command_shows_a_story_on_one_screen(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        uuid, numbers = make(server.client)
        command = ["trace", uuid, "--endpoint-url", server.endpoint_url]

        def shown(*more: str) -> str:
            return CliRunner().invoke(headrace, [*command, *more]).output

        wait_until(lambda: "RetryAttemptsExhausted" in shown(), what="the poison given up")
        story = shown("--sequence", numbers[2])
        assert "bisected" in story
        assert "cannot digest" in story
        assert len(story.splitlines()) < 24
        # The record, and the function's exception; by the end of its number as the whole tree shows it.
        whole = shown()
        end = re.search(r"1 record …(\d+)-", whole)
        assert end is not None
        assert numbers[2].endswith(end[1])
        for text in (whole, story, shown("--sequence", end[1])):
            assert "key 'k': poison" in text, text
            assert "ValueError: cannot digest" in text
        strange = CliRunner().invoke(headrace, [*command, "--sequence", "12345"])
        assert (strange.exit_code, "not in the stream" in strange.output) == (1, True)
        wrong = CliRunner().invoke(headrace, ["trace", "none", *command[2:]])
        assert wrong.exit_code == 1
        assert wrong.output == (
            "Error: There is no mapping, mapped function, queue or channel none; there is digest\n"
        )
    gone = CliRunner().invoke(headrace, command)
    assert gone.output.startswith("Error: No cloud answers at")
