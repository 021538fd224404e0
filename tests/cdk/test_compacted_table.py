"""A compacted table: its step on a schedule, its permissions, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from cdk.parts.compacted_table import CompactedTable
from cdk.parts.spark_cluster import SparkCluster


def synthesize(folder: Path, **arguments: Any) -> Template:
    stack = Stack(App(outdir=str(folder / "out")), "compacted")
    stream = kinesis.Stream(stack, "Changes", stream_name="changes")
    CompactedTable(stack, "Shop", source=stream, **arguments)
    return Template.from_stack(stack)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    keys = {"public.lines": ("order_id", "line")}
    return synthesize(tmp_path_factory.mktemp("table"), every=Duration.minutes(5), keys=keys)


def test_it_is_a_step_on_a_schedule(template: Template) -> None:
    (schedule,) = template.find_resources("AWS::Scheduler::Schedule").values()
    properties = schedule["Properties"]
    assert properties["ScheduleExpression"] == "rate(5 minutes)"
    text = json.dumps(properties["Target"])
    assert "aws-sdk:emr:addJobFlowSteps" in text
    assert "--key" in text
    assert "public.lines=order_id,line" in text
    assert "headrace_spark" not in text  # an asset's name is its hash
    assert "--py-files" in text


def test_its_roles_may_do_no_more_than_it_does(template: Template) -> None:
    allowed: dict[str, set[str]] = {}
    for policy in template.find_resources("AWS::IAM::Policy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            actions, resources = statement["Action"], statement["Resource"]
            for action in [actions] if isinstance(actions, str) else actions:
                for resource in resources if isinstance(resources, list) else [resources]:
                    allowed.setdefault(action, set()).add(json.dumps(resource))
    assert {action for action in allowed if action.startswith("kinesis:")} == {
        "kinesis:DescribeStreamSummary",
        "kinesis:GetRecords",
        "kinesis:GetShardIterator",
        "kinesis:ListShards",
    }
    (steps,) = allowed["elasticmapreduce:AddJobFlowSteps"]
    assert ":cluster/" in steps
    assert not [action for action in allowed if "*" in action]
    assert all(
        "logs/" in one or "compacted/" in one or "checkpoints/" in one
        for one in allowed["s3:PutObject"]
    )


def test_a_cluster_and_a_bucket_of_others_are_taken(tmp_path: Path) -> None:
    stack = Stack(App(outdir=str(tmp_path / "o")), "other")
    bucket = s3.Bucket(stack, "Bucket")
    cluster = SparkCluster(
        stack, "Spark", name="shared", bucket=bucket, prefixes=[], release="emr-spark-8.0.0"
    )
    stream = kinesis.Stream(stack, "Changes")
    table = CompactedTable(stack, "Shop", source=stream, cluster=cluster, bucket=bucket)
    template = Template.from_stack(stack)
    template.resource_count_is("AWS::EMR::Cluster", 1)
    assert "/compacted/" in table.rows


def test_runs_that_would_come_too_late_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"1 to 720 minutes, not 1440\."):
        synthesize(tmp_path, every=Duration.days(1))


def test_an_iceberg_table_has_a_database_in_the_folder(tmp_path: Path) -> None:
    template = synthesize(tmp_path, iceberg=("lake", "shop"))
    (database,) = template.find_resources("AWS::Glue::Database").values()
    assert "/compacted/" in json.dumps(database["Properties"]["DatabaseInput"]["LocationUri"])
    (schedule,) = template.find_resources("AWS::Scheduler::Schedule").values()
    assert "iceberg://lake/shop" in json.dumps(schedule["Properties"]["Target"])
    policies = json.dumps(template.find_resources("AWS::IAM::Policy"))
    assert "glue:UpdateTable" in policies
    assert "table/lake/shop" in policies


def test_an_iceberg_table_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for arguments, sentence in (
        ({"iceberg": ("lake", "Shop")}, "A Glue table's name must match"),
        ({"iceberg": ("lake", "shop"), "release": "emr-7.13.0"}, "with Spark 4, .* not emr-7.13.0"),
    ):
        with pytest.raises(ValueError, match=sentence):
            synthesize(tmp_path, **arguments)
