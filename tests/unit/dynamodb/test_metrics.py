"""What tables send to CloudWatch, and that alarms on it ring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import HandClock
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

KEYS: dict[str, Any] = {
    "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


def test_reads_writes_and_refusals_are_measured_and_alarms_ring(tmp_path: Path):
    clock = HandClock()
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        table, watch = cloud.client("dynamodb"), cloud.client("cloudwatch")
        table.create_table(TableName="t", **KEYS)
        table.create_table(TableName="u", **KEYS)
        watch.put_metric_alarm(
            AlarmName="writes", Namespace="AWS/DynamoDB", MetricName="ConsumedWriteCapacityUnits",
            Dimensions=[{"Name": "TableName", "Value": "t"}], Statistic="Sum", Period=60,
            EvaluationPeriods=1, Threshold=2, ComparisonOperator="GreaterThanThreshold",
        )  # fmt: skip
        for number in range(3):
            table.put_item(TableName="t", Item={"k": {"S": str(number)}})
        key = {"k": {"S": "1"}}
        # A quick call, and one that moto answers.
        table.get_item(TableName="t", Key=key)
        table.get_item(TableName="t", Key=key, ConsistentRead=True, ProjectionExpression="k")
        table.batch_get_item(RequestItems={name: {"Keys": [key]} for name in ("t", "u")})
        with pytest.raises(table.exceptions.ConditionalCheckFailedException):
            table.put_item(TableName="t", Item=key, ConditionExpression="attribute_not_exists(k)")
        for wrong in ({"TableName": "t", "Key": {}}, {"TableName": "t", "Key": {"x": {"S": "1"}}}):
            with pytest.raises(Exception, match="ValidationException"):
                table.get_item(**wrong)

        def sums() -> dict[tuple[str, str], float]:
            clock.advance(1)
            listed = watch.list_metrics(Namespace="AWS/DynamoDB")["Metrics"]
            found: dict[tuple[str, str], float] = {}
            for one in listed:
                points = watch.get_metric_statistics(
                    Namespace="AWS/DynamoDB", MetricName=one["MetricName"], Period=3600,
                    Dimensions=one["Dimensions"], Statistics=["Sum"],
                    StartTime=(clock.now_ms() - 3_600_000) / 1000, EndTime=clock.now_ms() / 1000 + 60,
                )["Datapoints"]  # fmt: skip
                where = "".join(dimension["Value"] for dimension in one["Dimensions"])
                found[one["MetricName"], where] = sum(point["Sum"] for point in points)
            return found

        expected = {
            ("ConsumedWriteCapacityUnits", "t"): 3.0,
            ("ConsumedReadCapacityUnits", "t"): 2.0,
            ("ConsumedReadCapacityUnits", "u"): 0.5,
            ("ConditionalCheckFailedRequests", "t"): 1.0,
            ("UserErrors", ""): 2.0,
        }
        clock.advance(60)
        wait_until(lambda: sums() == expected, within_s=30, what="the metrics")

        # The minute of the points ends; they are looked at for three minutes, so the time stands still then.
        clock.advance(60)
        wait_until(
            lambda: watch.describe_alarms()["MetricAlarms"][0]["StateValue"] == "ALARM",
            what="the alarm",
        )
