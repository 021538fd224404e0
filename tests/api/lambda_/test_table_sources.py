"""Streams of DynamoDB tables as event sources: what functions see, in which order, and after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud
from tests.support.lambda_lab import ROLE, json_lines, zipped
from tests.support.server import wait_until

# Writes every event that it gets, and fails with the items that say so.
SEER = """
import json, os
def handler(event, context):
    with open(os.environ["OUT_FILE"], "a") as out:
        out.write(json.dumps(event) + "\\n")
    bad = [r["dynamodb"]["SequenceNumber"] for r in event["Records"] if r["dynamodb"]["Keys"]["id"]["S"] == "bad"]
    if bad and "REPORTS" not in os.environ:
        raise ValueError("bad")
    return {"batchItemFailures": [{"itemIdentifier": number} for number in bad]}
"""


class Table:
    """A table with a stream, and a function that writes what it sees to a file."""

    def __init__(self, cloud: InProcessCloud, place: Path, name: str, **variables: str) -> None:
        self.cloud = cloud
        self.name = name
        self.out = place / f"{name}.out"
        self.dynamodb = cloud.client("dynamodb")
        self.lambda_ = cloud.client("lambda")
        made = self.dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        self.stream_arn = made["TableDescription"]["LatestStreamArn"]
        self.lambda_.create_function(
            FunctionName=name,
            Runtime="python3.12",
            Role=ROLE,
            Handler="index.handler",
            Code={"ZipFile": zipped({"index.py": SEER})},
            Environment={"Variables": {"OUT_FILE": str(self.out), **variables}},
        )

    def map(self, **members: Any) -> dict[str, Any]:
        wanted = {"StartingPosition": "TRIM_HORIZON", **members}
        return self.lambda_.create_event_source_mapping(
            FunctionName=self.name, EventSourceArn=self.stream_arn, **wanted
        )

    def put(self, id_: str, **attributes: Any) -> None:
        self.dynamodb.put_item(TableName=self.name, Item={"id": {"S": id_}, **attributes})

    def events(self) -> list[dict[str, Any]]:
        return json_lines(self.out)

    def seen(self) -> list[dict[str, Any]]:
        return [record for event in self.events() for record in event["Records"]]

    def ids(self) -> list[str]:
        return [record["dynamodb"]["Keys"]["id"]["S"] for record in self.seen()]

    def wait_for(self, count: int) -> list[dict[str, Any]]:
        wait_until(lambda: len(self.seen()) >= count, what=f"{count} changes seen")
        return self.seen()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def cloud(place: Path) -> Iterator[InProcessCloud]:
    with InProcessCloud(place / "data") as cloud:
        yield cloud


def test_the_function_sees_what_changed_as_aws_documents_it(
    cloud: InProcessCloud, place: Path
) -> None:
    table = Table(cloud, place, "changes")
    table.put("a", v={"N": "1"}, blob={"B": b"xx"})
    answer = table.map()
    # Members observed in AWS's answers that LocalStack recorded.
    assert answer["BatchSize"] == 100
    assert (answer["StartingPosition"], answer["MaximumRetryAttempts"]) == ("TRIM_HORIZON", -1)
    table.put("a", v={"N": "2"})
    table.put("a", v={"N": "2"})  # changes nothing: no record
    table.dynamodb.delete_item(TableName="changes", Key={"id": {"S": "a"}})
    insert, modify, remove = table.wait_for(3)
    assert insert.pop("eventID")
    change = insert.pop("dynamodb")
    assert isinstance(change.pop("ApproximateCreationDateTime"), float)
    assert change.pop("SequenceNumber").isdecimal()
    assert change.pop("SizeBytes") > 0
    assert change == {
        "Keys": {"id": {"S": "a"}},
        "NewImage": {"id": {"S": "a"}, "v": {"N": "1"}, "blob": {"B": "eHg="}},
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    }
    assert insert == {
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "eventVersion": "1.1",
        "awsRegion": "us-east-1",
        "eventSourceARN": table.stream_arn,
    }
    assert modify["eventName"] == "MODIFY"
    assert modify["dynamodb"]["OldImage"]["v"] == {"N": "1"}
    assert modify["dynamodb"]["NewImage"] == {"id": {"S": "a"}, "v": {"N": "2"}}
    assert remove["eventName"] == "REMOVE"
    assert "NewImage" not in remove["dynamodb"]


def test_a_records_size_is_that_of_its_key_and_its_images(
    cloud: InProcessCloud, place: Path
) -> None:
    # Observed: AWS's answers that LocalStack recorded have 12 and 26 for these two writes.
    table = Table(cloud, place, "sizes")
    table.put("Fred")
    table.put("Fred", name={"S": "Fred"})
    table.map()
    assert [record["dynamodb"]["SizeBytes"] for record in table.wait_for(2)] == [12, 26]


def test_latest_sees_only_what_comes_after(cloud: InProcessCloud, place: Path) -> None:
    table = Table(cloud, place, "latest")
    table.put("before")
    table.map(StartingPosition="LATEST")
    table.put("after")
    table.wait_for(1)
    assert table.ids() == ["after"]


def test_filters_ask_for_any_member_of_a_change(cloud: InProcessCloud, place: Path) -> None:
    table = Table(cloud, place, "filtered")
    pattern = {"eventName": ["INSERT"], "dynamodb": {"NewImage": {"kind": {"S": ["order"]}}}}
    table.map(FilterCriteria={"Filters": [{"Pattern": json.dumps(pattern)}]})
    table.put("a", kind={"S": "note"})
    table.put("b", kind={"S": "order"})
    table.put("b", kind={"S": "order"}, more={"BOOL": True})
    table.put("c", kind={"S": "order"})
    table.wait_for(2)
    assert table.ids() == ["b", "c"]


def test_changes_of_an_item_stay_in_order_with_lanes(cloud: InProcessCloud, place: Path) -> None:
    table = Table(cloud, place, "lanes")
    for n in range(30):
        table.put(f"k{n % 3}", n={"N": str(n)})
    table.map(ParallelizationFactor=3, BatchSize=4)
    table.wait_for(30)
    for key in ("k0", "k1", "k2"):
        of_key = [
            int(r["dynamodb"]["NewImage"]["n"]["N"])
            for r in table.seen()
            if r["dynamodb"]["Keys"]["id"]["S"] == key
        ]
        assert of_key == sorted(of_key)
        assert len(of_key) == 10


def test_what_always_fails_is_bisected_and_sent_to_the_destination(
    cloud: InProcessCloud, place: Path
) -> None:
    table = Table(cloud, place, "failing")
    sqs = cloud.client("sqs")
    queue = sqs.create_queue(QueueName="dead")["QueueUrl"]
    for id_ in ("a", "bad", "c", "d"):
        table.put(id_)
    table.map(
        BisectBatchOnFunctionError=True,
        MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": "arn:aws:sqs:us-east-1:000000000000:dead"}},
    )
    bodies: list[dict[str, Any]] = []

    def receive() -> bool:
        found = sqs.receive_message(QueueUrl=queue).get("Messages") or []
        bodies.extend(json.loads(message["Body"]) for message in found)
        return bool(bodies)

    wait_until(receive, what="a document of the batch that was given up")
    info = bodies[0]["DDBStreamBatchInfo"]
    numbers = {record["dynamodb"]["SequenceNumber"]: record for record in table.seen()}
    assert numbers[info["startSequenceNumber"]]["dynamodb"]["Keys"] == {"id": {"S": "bad"}}
    assert info["startSequenceNumber"] == info["endSequenceNumber"]
    assert (info["batchSize"], info["streamArn"]) == (1, table.stream_arn)
    assert bodies[0]["requestContext"]["condition"] == "RetryAttemptsExhausted"
    wait_until(lambda: table.ids()[-1] == "d", what="the rest of the batch")


def test_only_what_follows_a_reported_failure_is_tried_again(
    cloud: InProcessCloud, place: Path
) -> None:
    table = Table(cloud, place, "reporting", REPORTS="1")
    for id_ in ("a", "bad", "c"):
        table.put(id_)
    table.map(FunctionResponseTypes=["ReportBatchItemFailures"], MaximumRetryAttempts=1)
    wait_until(lambda: len(table.events()) >= 2, what="a second try")
    assert [r["dynamodb"]["Keys"]["id"]["S"] for r in table.events()[1]["Records"]] == ["bad", "c"]


def test_a_table_named_consumer_is_read_as_a_table(cloud: InProcessCloud, place: Path) -> None:
    table = Table(cloud, place, "consumer")
    table.map()
    table.put("a")
    table.wait_for(1)


def test_a_start_by_time_is_refused_as_on_aws(cloud: InProcessCloud, place: Path) -> None:
    table = Table(cloud, place, "timed")
    with pytest.raises(ClientError) as caught:
        table.map(StartingPosition="AT_TIMESTAMP", StartingPositionTimestamp=1.0)
    error: Any = cast("Any", caught.value).response["Error"]
    # Observed: AWS's answers that LocalStack recorded.
    assert error["Code"] == "InvalidParameterValueException"
    assert error["Message"] == f"Unsupported starting position for arn type: {table.stream_arn}"


def test_a_stream_that_is_not_there_is_refused(cloud: InProcessCloud, place: Path) -> None:
    table = Table(cloud, place, "there")
    table.stream_arn = table.stream_arn.replace("/there/", "/gone/")
    with pytest.raises(ClientError) as caught:
        table.map()
    assert (
        cast("Any", caught.value).response["Error"]["Message"]
        == f"Stream not found: {table.stream_arn}"
    )


def test_after_a_restart_the_mapping_goes_on_where_it_was(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path / "data") as cloud:
        table = Table(cloud, tmp_path, "kept")
        uuid = table.map()["UUID"]
        table.put("a")
        table.wait_for(1)
        cloud.client("lambda").update_event_source_mapping(UUID=uuid, Enabled=False)
        table.put("b")
    with InProcessCloud(tmp_path / "data") as cloud:
        cloud.client("lambda").update_event_source_mapping(UUID=uuid, Enabled=True)
        cloud.client("dynamodb").put_item(TableName="kept", Item={"id": {"S": "c"}})
        table.wait_for(3)
    assert table.ids() == ["a", "b", "c"]
