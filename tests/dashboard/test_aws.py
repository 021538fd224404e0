"""`headrace dashboard --aws`, with a headrace cloud in the place of AWS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from headrace.core.clock import SystemClock
from headrace.dashboard.aws import AwsAccount, CloudWatchMeter
from headrace.dashboard.inventory import Inventory, read_inventory
from tests.dashboard.browser import Page
from tests.support.server import ServerProcess


@contextmanager
def page_of(endpoint_url: str) -> Iterator[str]:
    """Run the command; its address."""
    variables = {
        **os.environ,
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    command = [sys.executable, "-m", "headrace.cli.main", "dashboard", "--aws", "--port", "0"]
    process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()  # type: ignore[union-attr]


def get(url: str, **headers: str) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
        return json.load(answer)


def test_the_page_of_an_account_only_looks(tmp_path: Path, page: Page) -> None:
    with ServerProcess(tmp_path / "data") as server, page_of(server.endpoint_url) as url:
        kinesis = boto3.client(
            "kinesis",
            endpoint_url=server.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        kinesis.create_stream(StreamName="orders", ShardCount=1)
        kinesis.get_waiter("stream_exists").wait(StreamName="orders", WaiterConfig={"Delay": 1})
        kinesis.put_record(StreamName="orders", Data=b"hello", PartitionKey="k")
        session = get(f"{url}api/session")
        assert (session["source"], session["isReadOnly"], session["token"]) == ("aws", True, "")
        assert session["account"] == "000000000000"
        listed = get(f"{url}api/resources")
        assert [one["id"] for one in listed["resources"]] == ["stream:orders"]
        records = get(f"{url}api/streams/orders/records?position=oldest")["records"]
        assert [one["payload"]["data"] for one in records] == ["hello"]
        put = urllib.request.Request(f"{url}api/put", data=b"{}", method="POST")
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(put, timeout=20)
        with refusal.value as error:
            assert error.code == 403
        with pytest.raises(urllib.error.HTTPError) as refusal:
            get(f"{url}api/resources", Host="evil.test")
        with refusal.value as error:
            assert error.code == 421
        page.do("anew")
        page.visit(f"{url}#/streams/orders", "Hash ranges and heat")
        page.do("wait", text="read-only")
        assert "Put a record" not in page.text()
        page.visit(url, "orders")
        assert page.do("said") == []


def test_keys_without_rights_are_named_call_by_call() -> None:
    class Refusing:
        """A boto3 client whose calls AWS denies."""

        def __init__(self, service: str) -> None:
            real = boto3.client(
                service, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
            )
            self.meta = real.meta

        def __getattr__(self, name: str) -> Any:
            from botocore.exceptions import ClientError

            def deny(**_: Any) -> None:
                details = {"Error": {"Code": "AccessDeniedException", "Message": "not authorized"}}
                raise ClientError(details, name)  # type: ignore[arg-type]

            return deny

    account = AwsAccount(Refusing, "us-east-1")
    assert account.account_id == "(unknown: AccessDeniedException)"
    inventory = read_inventory(account)
    refused = {(one["service"], one["operation"]) for one in inventory.refused}
    assert {
        ("kinesis", "ListStreams"),
        ("firehose", "ListDeliveryStreams"),
        ("emr", "ListClusters"),
    } <= refused
    inventory.add("stream", "orders")
    CloudWatchMeter(account, SystemClock()).totals(inventory)
    assert "GetMetricData" in [one["operation"] for one in inventory.refused]


def test_rules_topics_tables_pipes_and_queues_have_cloudwatch_s_rates() -> None:
    asked: dict[str, list[dict[str, str]]] = {}

    class Metrics:
        source, account_id, region, is_read_only = "aws", "0", "us-east-1", True

        def call(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
            assert (service, operation) == ("cloudwatch", "GetMetricData")
            results: list[dict[str, Any]] = []
            for query in params["MetricDataQueries"]:
                metric = query["MetricStat"]["Metric"]
                asked[f"{metric['Namespace']} {metric['MetricName']}"] = metric["Dimensions"]
                value = {"Id": query["Id"], "Timestamps": [params["EndTime"]], "Values": [120.0]}
                results.append(value)
            return {"MetricDataResults": results}

    inventory = Inventory()
    for kind, name in (
        ("rule", "shop/sold"),
        ("rule", "nightly"),
        ("topic", "news"),
        ("table", "prices"),
        ("pipe", "carry"),
        ("queue", "work"),
    ):
        inventory.add(kind, name)
    totals = CloudWatchMeter(Metrics(), SystemClock()).totals(inventory)
    assert {one: figures.rate for one, figures in totals.items()} == dict.fromkeys(
        inventory.resources, 2.0
    )
    assert asked["AWS/DynamoDB ConsumedWriteCapacityUnits"] == [
        {"Name": "TableName", "Value": "prices"}
    ]
    assert asked["AWS/EventBridge/Pipes EventCount"] == [{"Name": "PipeName", "Value": "carry"}]
    assert asked["AWS/Events TriggeredRules"] == [{"Name": "RuleName", "Value": "nightly"}]
    shop = Inventory()
    shop.add("rule", "shop/sold")
    CloudWatchMeter(Metrics(), SystemClock()).totals(shop)
    assert asked["AWS/Events TriggeredRules"] == [
        {"Name": "EventBusName", "Value": "shop"},
        {"Name": "RuleName", "Value": "sold"},
    ]
    assert totals["queue:work"].lag_ms == 120_000
    # A mapping has the age of its function, whatever its failure destination has.
    reading = Inventory()
    reading.add("queue", "failed")
    reading.add("function", "enrich")
    reading.connect("stream:orders", "function:enrich", "mapping:u")
    reading.connect("function:enrich", "queue:failed", "mapping:u")
    totals = CloudWatchMeter(Metrics(), SystemClock()).totals(reading)
    assert totals["mapping:u"].lag_ms == totals["function:enrich"].lag_ms == 120
