from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from cdk.parts.delivery_config import Column, DeliveryConfig, load_delivery
from cdk.parts.event_stream import EventStream
from cdk.parts.spark_cluster import SparkCluster
from cdk.parts.stream_function import StreamFunction
from cdk.parts.workspace_bucket import WorkspaceBucket
from cdk.stacks.delivery import CONFIG
from cdk.stacks.processing import CODE
from headrace.dashboard.export import cdk_code, suggested_alarms
from headrace.dashboard.inventory import Inventory


@pytest.fixture(scope="module")
def app() -> App:
    return App()


@pytest.fixture
def stack(app: App, request: pytest.FixtureRequest) -> Stack:
    # Every test its own, in one app: an app costs a second.
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60].strip("-")
    return Stack(app, f"s{abs(hash(request.node.nodeid))}-{name}")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "a b"}, "A stream's name must match .* and 'a b' does not."),
        ({"name": ""}, "A stream's name must match"),
        ({"name": "x" * 129}, "A stream's name must match"),
        ({"shard_count": 0}, "A stream's shard count must be 1 to 500, not 0."),
        ({"shard_count": 501}, "A stream's shard count must be 1 to 500, not 501."),
        ({"retention_hours": 23}, "A stream's retention must be 24 to 8760 hours, not 23."),
    ],
)
def test_a_stream_that_aws_would_refuse(
    changes: dict[str, Any], sentence: str, stack: Stack
) -> None:
    with pytest.raises(ValueError, match=sentence):
        EventStream(stack, "S", **{"name": "s", "shard_count": 1} | changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "a.b"}, "A function's name must match"),
        ({"batch_size": 0}, "A batch must be 1 to 10000 records, not 0."),
        ({"batching_window_s": 301}, "A batching window must be 0 to 300 seconds, not 301."),
        ({"retry_attempts": -1}, "The retries of a batch must be 0 to 10000, not -1."),
        ({"parallel_batches_per_shard": 11}, "The parallel batches of a shard must be 1 to 10"),
        ({"memory_mib": 64}, "A function's memory must be 128 to 10240 MiB, not 64."),
        ({"timeout_s": 901}, "A function's timeout must be 1 to 900 seconds, not 901."),
        ({"code": Path(__file__).parent}, "A function's folder must hold handler.py"),
    ],
)
def test_a_function_that_aws_would_refuse(
    changes: dict[str, Any], sentence: str, stack: Stack
) -> None:
    source = kinesis.Stream.from_stream_arn(stack, "I", "arn:aws:kinesis:us-east-1:1:stream/s")
    arguments: dict[str, Any] = {
        "name": "f",
        "code": CODE,
        "source": source,
        "environment": {},
        "batch_size": 1,
        "retry_attempts": 0,
    }

    with pytest.raises(ValueError, match=sentence):
        StreamFunction(stack, "F", **arguments | changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "a|b"}, "A cluster's name must match"),
        ({"release": "8.0"}, "An EMR release must match .* and '8.0' does not."),
        ({"instance_type": "big"}, "An instance type must match"),
        ({"workers": 0}, "A cluster's workers must be 1 to 50, not 0."),
        ({"subnet_id": "vpc-12345678"}, "A subnet's id must match"),
        ({"prefixes": ["results"]}, "A prefix must end, and not begin, with a slash: 'results'."),
        ({"prefixes": ["/results/"]}, "A prefix must end, and not begin, with a slash"),
    ],
)
def test_a_cluster_that_aws_would_refuse(
    changes: dict[str, Any], sentence: str, stack: Stack
) -> None:
    arguments: dict[str, Any] = {
        "name": "c",
        "bucket": s3.Bucket.from_bucket_name(stack, "B", "b-b-b"),
        "prefixes": ["results/"],
        "release": "emr-7.10.0",
    }

    with pytest.raises(ValueError, match=sentence):
        SparkCluster(stack, "C", **arguments | changes)


def test_a_bucket_whose_objects_would_never_live_is_refused(stack: Stack) -> None:
    with pytest.raises(ValueError, match=r"life must be 1 to 36500 days, not 0\."):
        WorkspaceBucket(stack, "B", expire_days=0)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "a b"}, "A delivery stream's name must match"),
        ({"size_mib": 63}, "A buffer that is converted to Parquet must be 64 to 128 MiB, not 63."),
        ({"interval_s": 901}, "A buffering interval must be 0 to 900 seconds, not 901."),
        ({"database": "Lake"}, "A Glue database's name must match"),
        ({"table": "fl-ights"}, "A Glue table's name must match"),
        ({"parquet_compression": "LZ4"}, "Parquet's compression must be one of SNAPPY, GZIP"),
        ({"prefix": "flights/delivered_hour=!{no}/"}, "The prefix may not hold !{no}."),
        (
            {"prefix": "flights/delivered_hour=!{firehose:error-output-type}/"},
            "The prefix may not hold !{firehose:error-output-type}.",
        ),
        ({"prefix": "f" * 1025}, "The prefix must have at most 1024 characters, not 1025."),
        ({"prefix": "elsewhere/"}, "The prefix must begin with the table's location"),
        ({"error_prefix": "errors/"}, "The error prefix must hold !{firehose:error-output-type}."),
        (
            {"error_prefix": "flights/!{firehose:error-output-type}/"},
            "The error prefix must not lie in the table's location.",
        ),
        ({"columns": ()}, "A delivery's table must have a column."),
        ({"columns": (Column(name="A", type="int"),)}, "A column's name must match"),
        ({"columns": (Column(name="a", type="text"),)}, "Column a has no Hive type: 'text'."),
        ({"columns": (Column(name="a", type="int"),) * 2}, "Column a occurs twice."),
        ({"columns": (Column(name="delivered_hour", type="int"),)}, "delivered_hour occurs twice."),
    ],
)
def test_a_delivery_that_aws_would_refuse(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as raised:
        dataclasses.replace(load_delivery(CONFIG), **changes)

    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("hive_type", ["array<int>", "struct<a:int,b:string>", "decimal(10,2)"])
def test_a_column_may_be_nested(hive_type: str) -> None:
    columns = (Column(name="a", type=hive_type),)

    assert dataclasses.replace(load_delivery(CONFIG), columns=columns).columns == columns


def damaged(change: Callable[[dict[str, Any]], Any]) -> str:
    data = json.loads(CONFIG.read_text())
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "Expecting property name"),
        ("[]", "cannot be read as a delivery"),
        (damaged(lambda data: data.pop("table")), "lacks 'table'."),
        (damaged(lambda data: data["buffering"].update(size_mib=1)), "must be 64 to 128 MiB"),
        (damaged(lambda data: data["columns"][0].update(kind="x")), "cannot be read as a delivery"),
    ],
)
def test_a_damaged_file_is_refused_by_name(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "delivery.json"
    path.write_text(text)

    with pytest.raises(ValueError) as raised:
        load_delivery(path)

    assert str(path) in str(raised.value)
    assert sentence in str(raised.value)


def test_the_flights_delivery_holds_every_field_of_an_enriched_event() -> None:
    from headrace.cli.flights import event_frame
    from scripts.reference import enriched

    config: DeliveryConfig = load_delivery(CONFIG)
    fields = ["event_id", *enriched(event_frame(1).head(1)).columns]

    assert [column.name for column in config.columns] == fields


def test_the_live_page_s_code_is_a_stack_with_its_alarms() -> None:
    inventory = Inventory()
    inventory.add("stream", "orders", facts={"retentionHours": 24})
    inventory.connect("stream:orders", "function:enrich", "mapping:u")
    names: dict[str, Any] = {}
    exec(compile(cdk_code(inventory, "us-east-1"), "dashboard.py", "exec"), names)
    stack = names["PipelineDashboard"](App(), "live-page")
    alarms = Template.from_stack(stack).find_resources("AWS::CloudWatch::Alarm").values()
    assert [one["Properties"] for one in alarms] == suggested_alarms(inventory, {})
