"""Event source mappings on a stream in memory, with real functions."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.lambda_.consumer import Consumer, get
from tests.support.lambda_lab import QUEUE, LambdaLab
from tests.support.server import wait_until
from tests.support.streams import STREAM_ARN

# --- serialization ----------------------------------------------------------------------------


def test_create_answers_with_all_members(consumer: Consumer) -> None:
    answer = consumer.map(
        BatchSize=10,
        MaximumRetryAttempts=2,
        BisectBatchOnFunctionError=True,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        DestinationConfig={"OnFailure": {"Destination": QUEUE}},
    )
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert answer["State"] == "Creating"
    assert answer["FunctionArn"] == "arn:aws:lambda:us-east-1:000000000000:function:consume"
    assert answer["EventSourceArn"] == STREAM_ARN
    assert answer["BatchSize"] == 10
    assert answer["MaximumRecordAgeInSeconds"] == -1
    assert answer["MaximumBatchingWindowInSeconds"] == 0
    assert answer["ParallelizationFactor"] == 1
    assert answer["DestinationConfig"] == {"OnFailure": {"Destination": QUEUE}}
    assert answer["LastModified"] <= datetime.now(UTC)
    lasting = get(consumer.lab, answer["UUID"])
    assert lasting["State"] == "Enabled"
    assert lasting["LastProcessingResult"] == "No records processed"


def test_mappings_are_listed_by_function_and_stream(consumer: Consumer) -> None:
    client = consumer.lab.client()
    uuid = consumer.map()["UUID"]

    def listed(**filters: str) -> list[str]:
        found = client.list_event_source_mappings(**filters)["EventSourceMappings"]
        return [mapping["UUID"] for mapping in found]

    assert listed() == listed(FunctionName="consume") == listed(EventSourceArn=STREAM_ARN) == [uuid]
    assert listed(FunctionName="other") == listed(EventSourceArn=f"{STREAM_ARN}2") == []


def test_mappings_have_tags(consumer: Consumer) -> None:
    client = consumer.lab.client()
    arn = consumer.map(Tags={"team": "delays"})["EventSourceMappingArn"]
    client.tag_resource(Resource=arn, Tags={"stage": "test"})
    client.untag_resource(Resource=arn, TagKeys=["team"])
    assert client.list_tags(Resource=arn)["Tags"] == {"stage": "test"}


# --- validation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"FunctionName": "missing"}, "InvalidParameterValueException"),
        ({"EventSourceArn": f"{STREAM_ARN}-missing"}, "InvalidParameterValueException"),
        ({"EventSourceArn": None}, "InvalidParameterValueException"),
        (
            {"EventSourceArn": "arn:aws:sqs:us-east-1:000000000000:q"},
            "InvalidParameterValueException",
        ),
        ({"StartingPosition": None}, "InvalidParameterValueException"),
        ({"StartingPosition": "AT_TIMESTAMP"}, "InvalidParameterValueException"),
        ({"StartingPositionTimestamp": datetime.now(UTC)}, "InvalidParameterValueException"),
        ({"BatchSize": 10_001}, "ValidationException"),
        ({"BatchSize": 0}, "ValidationException"),
        ({"MaximumBatchingWindowInSeconds": 301}, "ValidationException"),
        ({"MaximumRecordAgeInSeconds": 59}, "InvalidParameterValueException"),
        (
            {
                "DestinationConfig": {
                    "OnFailure": {"Destination": "arn:aws:lambda:us-east-1:000000000000:function:f"}
                }
            },
            "InvalidParameterValueException",
        ),
        ({"DestinationConfig": {"OnFailure": {}}}, "InvalidParameterValueException"),
        ({"TumblingWindowInSeconds": 901}, "ValidationException"),
        ({"ParallelizationFactor": 11}, "ValidationException"),
        ({"ScalingConfig": {"MaximumConcurrency": 2}}, "InvalidParameterValueException"),
        ({"Topics": ["topic"]}, "InvalidParameterValueException"),
        (
            {"EventSourceArn": "arn:aws:dynamodb:us-east-1:000000000000:table/t/stream/1"},
            "InvalidParameterValueException",
        ),
        ({"EventSourceArn": f"{STREAM_ARN}/consumer/gone:1"}, "InvalidParameterValueException"),
        (
            {"FilterCriteria": {"Filters": [{"Pattern": '{"partitionKey": ["a"]}'}] * 11}},
            "InvalidParameterValueException",
        ),
    ],
)
def test_bad_mappings_are_refused(consumer: Consumer, members: dict[str, Any], code: str) -> None:
    given = {
        "EventSourceArn": STREAM_ARN,
        "FunctionName": "consume",
        "StartingPosition": "LATEST",
        **members,
    }
    with pytest.raises(ClientError) as caught:
        consumer.lab.client().create_event_source_mapping(
            **{name: value for name, value in given.items() if value is not None}
        )
    assert caught.value.response["Error"]["Code"] == code
    assert consumer.lab.client().list_event_source_mappings()["EventSourceMappings"] == []


def test_a_second_mapping_of_the_same_pair_is_a_conflict(consumer: Consumer) -> None:
    consumer.map()
    with pytest.raises(ClientError, match="mapping already exists") as caught:
        consumer.map()
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 409


def test_a_missing_mapping_is_not_found(lab: LambdaLab) -> None:
    with pytest.raises(ClientError) as caught:
        get(lab, "00000000-0000-0000-0000-000000000000")
    assert caught.value.response["Error"]["Code"] == "ResourceNotFoundException"


# --- behaviour --------------------------------------------------------------------------------


def test_records_reach_the_function_in_order_and_in_batches(consumer: Consumer) -> None:
    records = [str(n) for n in range(25)]
    consumer.lab.streams.put(*(record.encode() for record in records))
    uuid = consumer.map(BatchSize=10)["UUID"]
    consumer.wait_for(*records)
    assert consumer.seen() == records
    assert [len(batch) for batch in consumer.batches()] == [10, 10, 5]
    assert get(consumer.lab, uuid)["LastProcessingResult"] == "OK"


def test_an_append_wakes_the_mapping(consumer: Consumer) -> None:
    consumer.map()
    for record in ("a", "b", "c"):
        consumer.lab.streams.put(record.encode())
        consumer.wait_for(record)
    assert consumer.seen() == ["a", "b", "c"]


def test_latest_starts_when_the_mapping_is_made(consumer: Consumer) -> None:
    consumer.lab.streams.put(b"before")
    consumer.map(StartingPosition="LATEST")
    consumer.lab.streams.put(b"after")
    consumer.wait_for("after")
    assert consumer.seen() == ["after"]


def test_at_timestamp_starts_there(consumer: Consumer) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    start_ms = int(start.timestamp() * 1000)
    consumer.lab.streams.put(b"before", now_ms=start_ms - 1)
    consumer.lab.streams.put(b"at", now_ms=start_ms)
    consumer.map(StartingPosition="AT_TIMESTAMP", StartingPositionTimestamp=start)
    consumer.wait_for("at")
    assert consumer.seen() == ["at"]


def test_a_window_gathers_records(consumer: Consumer) -> None:
    consumer.map(MaximumBatchingWindowInSeconds=1)
    for record in ("a", "b", "c"):
        consumer.lab.streams.put(record.encode())
    consumer.wait_for("a", "b", "c")
    assert consumer.batches() == [["a", "b", "c"]]


def test_a_full_batch_does_not_wait_for_its_window(consumer: Consumer) -> None:
    consumer.map(MaximumBatchingWindowInSeconds=300, BatchSize=2)
    consumer.lab.streams.put(b"a", b"b", b"c")
    consumer.wait_for("a", "b")
    assert consumer.batches() == [["a", "b"]]


def test_a_restart_goes_on_from_the_checkpoint(consumer: Consumer) -> None:
    lab = consumer.lab
    uuid = consumer.map()["UUID"]
    lab.streams.put(b"a", b"b")
    consumer.wait_for("a", "b")
    wait_until(lambda: get(lab, uuid)["LastProcessingResult"] == "OK")
    lab.stop()
    lab.streams.put(b"c")
    lab.start()
    consumer.wait_for("c")
    assert consumer.seen() == ["a", "b", "c"]


def test_a_disabled_mapping_waits_and_goes_on(consumer: Consumer) -> None:
    client = consumer.lab.client()
    uuid = consumer.map()["UUID"]
    consumer.lab.streams.put(b"a")
    consumer.wait_for("a")
    assert client.update_event_source_mapping(UUID=uuid, Enabled=False)["State"] == "Disabling"
    assert get(consumer.lab, uuid)["State"] == "Disabled"
    consumer.lab.streams.put(b"b")
    assert consumer.seen() == ["a"]
    assert client.update_event_source_mapping(UUID=uuid, Enabled=True)["State"] == "Enabling"
    consumer.wait_for("b")
    assert consumer.seen() == ["a", "b"]


def test_a_changed_batch_size_is_followed(consumer: Consumer) -> None:
    uuid = consumer.map(BatchSize=1)["UUID"]
    consumer.lab.client().update_event_source_mapping(UUID=uuid, BatchSize=3)
    consumer.lab.streams.put(b"a", b"b", b"c")
    consumer.wait_for("c")
    assert consumer.batches() == [["a", "b", "c"]]


def test_a_deleted_mapping_sees_no_more(consumer: Consumer) -> None:
    client = consumer.lab.client()
    uuid = consumer.map()["UUID"]
    assert client.delete_event_source_mapping(UUID=uuid)["State"] == "Deleting"
    with pytest.raises(ClientError):
        get(consumer.lab, uuid)
    assert consumer.lab.database.documents("lambda_checkpoints").items() == []
    consumer.lab.streams.put(b"a")
    other = consumer.map(StartingPosition="LATEST")["UUID"]
    consumer.lab.streams.put(b"b")
    consumer.wait_for("b")
    assert consumer.seen() == ["b"]
    assert other != uuid


def test_parents_are_drained_before_children(consumer: Consumer) -> None:
    streams = consumer.lab.streams
    streams.put(b"parent-1", b"crash", b"parent-2")
    streams.replace("shardId-0", "shardId-1", "shardId-2")
    streams.put(b"left", shard_id="shardId-1")
    streams.replace("shardId-1", "shardId-3")
    streams.put(b"grandchild", shard_id="shardId-3")
    consumer.map(BatchSize=1)
    wait_until(lambda: consumer.seen().count("crash") >= 2, what="retries of the parent")
    assert not {"left", "grandchild"} & set(consumer.seen())
    consumer.heal()
    consumer.wait_for("grandchild")
    seen = consumer.seen()
    order = [seen.index(record) for record in ("parent-1", "parent-2", "left", "grandchild")]
    assert order == sorted(order)


def test_a_reshard_while_running_is_followed(consumer: Consumer) -> None:
    streams = consumer.lab.streams
    uuid = consumer.map(StartingPosition="LATEST")["UUID"]
    streams.put(b"a")
    consumer.wait_for("a")
    streams.replace("shardId-0", "shardId-1", "shardId-2")
    streams.put(b"b", shard_id="shardId-1")
    streams.put(b"c", shard_id="shardId-2")
    consumer.wait_for("b", "c")
    wait_until(lambda: get(consumer.lab, uuid)["LastProcessingResult"] == "OK")
    consumer.lab.restart()
    streams.put(b"d", shard_id="shardId-2")
    consumer.wait_for("d")
    assert sorted(consumer.seen()) == ["a", "b", "c", "d"]


def test_a_stop_in_the_middle_of_a_batch_is_no_failure(lab: LambdaLab) -> None:
    source = (
        "import time, pathlib, os\ndef handler(event, context):\n"
        "    pathlib.Path(os.environ['OUT_FILE'] + context.aws_request_id).touch()\n"
        "    time.sleep(60 if len(os.listdir(os.path.dirname(os.environ['OUT_FILE']))) == 1 else 0)\n"
    )
    out = lab.place / "out"
    out.mkdir()
    lab.create("long", source, Timeout=60, Environment={"Variables": {"OUT_FILE": f"{out}/"}})
    lab.client().create_event_source_mapping(
        EventSourceArn=STREAM_ARN,
        FunctionName="long",
        StartingPosition="TRIM_HORIZON",
        MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": QUEUE}},
    )
    lab.streams.put(b"a")
    wait_until(lambda: list(out.iterdir()), what="the first call")
    lab.restart()
    wait_until(lambda: len(list(out.iterdir())) == 2, what="the second call")
    assert lab.box.messages[QUEUE] == []


def test_a_stream_that_is_deleted_is_a_problem_not_a_crash(consumer: Consumer) -> None:
    uuid = consumer.map()["UUID"]
    consumer.lab.streams.delete()
    wait_until(
        lambda: get(consumer.lab, uuid)["LastProcessingResult"] == "PROBLEM: Stream not found"
    )
    consumer.lab.streams.restore()
    consumer.lab.streams.put(b"back")
    consumer.wait_for("back")


def test_iterator_age_is_measured(consumer: Consumer) -> None:
    consumer.map()
    consumer.lab.streams.put(b"a", now_ms=consumer.lab.clock.now_ms() - 5000)
    consumer.wait_for("a")
    ages = [m.value for m in consumer.lab.metrics.metrics if m.name == "IteratorAge"]
    assert 5000 <= ages[0] < 60_000


def test_filters_choose_the_records_and_the_checkpoint_passes_the_others(
    consumer: Consumer,
) -> None:
    lab = consumer.lab
    uuid = consumer.map(
        BatchSize=2, FilterCriteria={"Filters": [{"Pattern": '{"data":[{"prefix":"yes"}]}'}]}
    )["UUID"]
    lab.streams.put(b"no-1", b"yes-1", b"no-2", b"no-3", b"yes-2", b"yes-3")
    consumer.wait_for("yes-3")
    (last,) = lab.streams.put(b"no-4")
    checkpoints = lab.database.documents("lambda_checkpoints")
    wait_until(
        lambda: checkpoints.get(f"{uuid}/shardId-0") == {"kind": "after", "sequence": last},
        what="the checkpoint after a filtered record",
    )
    assert consumer.seen() == ["yes-1", "yes-2", "yes-3"]


def test_a_filter_that_is_no_pattern_is_refused(consumer: Consumer) -> None:
    with pytest.raises(ClientError, match="Invalid filter pattern definition"):
        consumer.map(FilterCriteria={"Filters": [{"Pattern": "{"}]})


def test_the_function_sees_kinesis_events(lab: LambdaLab) -> None:
    lab.create("shows", "import json\ndef handler(event, context):\n    print(json.dumps(event))\n")
    lab.client().create_event_source_mapping(
        EventSourceArn=STREAM_ARN, FunctionName="shows", StartingPosition="TRIM_HORIZON"
    )
    lab.streams.put(b"\x00\xff", key="ünï", now_ms=1_700_000_000_123)
    shown = wait_until(lambda: [m for m in lab.logs.messages() if m.startswith('{"Records"')])
    (record,) = json.loads(shown[0])["Records"]
    assert record["eventID"] == f"shardId-0:{record['kinesis']['sequenceNumber']}"
    assert base64.b64decode(record["kinesis"]["data"]) == b"\x00\xff"
    assert record["kinesis"]["partitionKey"] == "ünï"
    assert record["kinesis"]["approximateArrivalTimestamp"] == 1_700_000_000.123
    assert record["invokeIdentityArn"] == "arn:aws:iam::000000000000:role/functions"
