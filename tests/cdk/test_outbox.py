"""The outbox: its resources and permissions, and what its function puts."""

from __future__ import annotations

import base64
import importlib.util
import random
from typing import Any

from aws_cdk import App, Stack
from aws_cdk import aws_kinesis as kinesis
from aws_cdk.assertions import Match, Template

from cdk.parts.outbox import CODE, Outbox


def load() -> Any:
    spec = importlib.util.spec_from_file_location("outbox_handler", CODE / "handler.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_makes_a_table_its_stream_and_a_function() -> None:
    stack = Stack(App(), "outbox")
    Outbox(stack, "Events", name="events", target=kinesis.Stream(stack, "Stream"))
    template = Template.from_stack(stack)
    template.has_resource_properties(
        "AWS::DynamoDB::Table",
        {
            "StreamSpecification": {"StreamViewType": "NEW_IMAGE"},
            "TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True},
        },
    )
    template.has_resource_properties(
        "AWS::Lambda::EventSourceMapping",
        {
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "StartingPosition": "TRIM_HORIZON",
            "DestinationConfig": Match.any_value(),
        },
    )
    policies = str(template.find_resources("AWS::IAM::Policy"))
    assert "kinesis:PutRecords" in policies
    assert "dynamodb:PutItem" not in policies


class Stream:
    """Kinesis that refuses entries at random."""

    def __init__(self, seed: int, share: float) -> None:
        self.records: list[tuple[str, bytes]] = []
        self._chance, self.share = random.Random(seed), share

    def put_records(self, *, StreamName: str, Records: list[dict[str, Any]]) -> dict[str, Any]:
        assert len({record["PartitionKey"] for record in Records}) == len(Records)
        results: list[dict[str, str]] = []
        for record in Records:
            if self._chance.random() < self.share:
                results.append({"ErrorCode": "ProvisionedThroughputExceededException"})
            else:
                self.records.append((record["PartitionKey"], record["Data"]))
                results.append({"SequenceNumber": "1"})
        return {"FailedRecordCount": sum("ErrorCode" in r for r in results), "Records": results}


def change(number: int, key: str, *, name: str = "INSERT") -> dict[str, Any]:
    data = {"S": str(number)} if number % 2 else {"B": base64.b64encode(b"%d" % number).decode()}
    image = {"key": {"S": key}, "id": {"S": str(number)}, "data": data}
    return {
        "eventName": name,
        "dynamodb": {"SequenceNumber": str(1000 + number), "NewImage": image},
    }


def test_events_of_a_key_keep_their_order_whatever_is_refused() -> None:
    process = load().process
    for seed in range(20):
        stream = Stream(seed, 0.4)
        changes = [change(number, f"k{number % 3}") for number in range(30)]
        left = changes
        while left:
            failures = process(left, stream, "s", lambda _: None)["batchItemFailures"]
            numbers = [item["dynamodb"]["SequenceNumber"] for item in left]
            left = left[numbers.index(failures[0]["itemIdentifier"]) :] if failures else []
        for key in ("k0", "k1", "k2"):
            first: dict[bytes, None] = dict.fromkeys(data for k, data in stream.records if k == key)
            expected = [b"%d" % number for number in range(30) if f"k{number % 3}" == key]
            assert list(first) == expected


def test_only_new_items_are_events() -> None:
    stream = Stream(0, 0.0)
    empty = change(5, "a")
    del empty["dynamodb"]["NewImage"]["data"]
    empty["dynamodb"]["Keys"] = {}
    changes = [empty, change(1, "a"), change(2, "a", name="MODIFY"), change(3, "a", name="REMOVE")]
    assert load().process(changes, stream, "s", lambda _: None) == {"batchItemFailures": []}
    assert stream.records == [("a", b"1")]
    load().process([change(1, "k" * 300)], stream, "s", lambda _: None)
    assert stream.records[1][0].startswith("sha256:")
