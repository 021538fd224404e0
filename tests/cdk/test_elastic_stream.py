"""The stream whose shards follow its load: its resources, its permissions, and what its archive holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Match, Template

from cdk.app import build, new_app
from cdk.parts.elastic_stream import ElasticStream, pack


@pytest.fixture(scope="module")
def template() -> Template:
    stack = Stack(App(), "elastic")
    ElasticStream(stack, "Orders", name="orders", min_shards=2, max_shards=20, period_s=10)
    return Template.from_stack(stack)


def test_it_makes_a_stream_a_function_and_its_schedule(template: Template) -> None:
    template.has_resource_properties("AWS::Kinesis::Stream", {"Name": "orders", "ShardCount": 2})
    variables = {
        "STREAM": {"Ref": Match.string_like_regexp("OrdersStream")},
        "MIN_SHARDS": "2",
        "MAX_SHARDS": "20",
        "TARGET_UTILISATION": "0.6",
        "PERIOD_S": "10",
    }
    template.has_resource_properties(
        "AWS::Lambda::Function",
        {
            "Handler": "handler.handler",
            "Environment": {"Variables": Match.object_like(variables)},
        },
    )
    retries = {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0}
    template.has_resource_properties(
        "AWS::Events::Rule",
        {
            "ScheduleExpression": "rate(1 minute)",
            "Targets": [Match.object_like({"RetryPolicy": retries})],
        },
    )  # fmt: skip
    template.resource_count_is("AWS::CloudWatch::Dashboard", 1)
    template.resource_count_is("AWS::CloudWatch::Alarm", 1)


def test_the_function_may_change_this_stream_alone(template: Template) -> None:
    (policy,) = template.find_resources("AWS::IAM::Policy").values()
    by_action: dict[str, Any] = {}
    for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
        actions = statement["Action"]
        for action in [actions] if isinstance(actions, str) else actions:
            by_action[action] = statement
    on_stream = {a for a in by_action if a.startswith("kinesis:")}
    assert on_stream == {
        "kinesis:DescribeStreamSummary", "kinesis:ListShards", "kinesis:GetShardIterator", "kinesis:GetRecords",
        "kinesis:SplitShard", "kinesis:MergeShards", "kinesis:UpdateShardCount",
    }  # fmt: skip
    for action in on_stream:
        ((kind, target),) = by_action[action]["Resource"].items()
        assert (kind, target[1]) == ("Fn::GetAtt", "Arn")
    assert by_action["cloudwatch:PutMetricData"]["Condition"] == {
        "StringEquals": {"cloudwatch:namespace": "Headrace/Shards"}
    }
    others = set(by_action) - on_stream
    assert {action.partition(":")[0] for action in others} == {"cloudwatch", "logs"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"max_shards": 1}, "A stream's most shards must be 2 to 500, not 1."),
        ({"min_shards": 0}, "min_shards and max_shards are 1 to"),
        ({"period_s": 1}, "A period must be 2 to 60 seconds, not 1."),
        ({"period_s": 5, "sample_s": 6}, "A sample must be 1 to 5 seconds, not 6."),
        ({"target_utilisation": 1.5}, "target_utilisation is between 0.1 and 0.9, not 1.5"),
        ({"name": "a b"}, "A stream's name must match"),
    ],
)
def test_arguments_that_make_no_sense(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ElasticStream(
            Stack(App(), "bad"),
            "S",
            **{"name": "s", "min_shards": 2, "max_shards": 4} | changes,
        )


def test_the_archive_holds_all_that_the_function_imports(tmp_path: Path) -> None:
    pack(tmp_path)
    # `-c` puts the folder first on the path, as Lambda does; boto3 is the runtime's own.
    code = (
        "import handler, headrace, sys; print(headrace.__file__);"
        "print(*sorted(name for name in sys.modules if name.startswith('headrace.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    file, modules = done.stdout.splitlines()
    assert Path(file).resolve().is_relative_to(tmp_path.resolve())
    packed = {
        ".".join(path.relative_to(tmp_path).with_suffix("").parts).removesuffix(".__init__")
        for path in tmp_path.rglob("headrace/**/*.py")
    }
    assert set(modules.split()) <= packed


def flights_of(tmp_path: Path, elastic: str) -> Template:
    app = new_app(str(tmp_path))
    app.node.set_context("elastic", elastic)
    app.node.set_context("leave_out", "processing, delivery, analytics")
    return Template.from_stack(build(app)[0])


def test_flights_follow_their_load_by_a_context_option(tmp_path: Path) -> None:
    flights = flights_of(tmp_path, "5")
    flights.has_resource_properties("AWS::Kinesis::Stream", {"Name": "flights", "ShardCount": 1})
    flights.has_resource_properties(
        "AWS::Lambda::Function",
        {
            "Environment": {
                "Variables": Match.object_like(
                    {"PERIOD_S": "5", "COLD_FOR_S": "50", "MAX_SHARDS": "16"}
                )
            }
        },
    )


def test_without_the_option_flights_have_four_shards(tmp_path: Path) -> None:
    flights = flights_of(tmp_path, "false")
    flights.has_resource_properties("AWS::Kinesis::Stream", {"Name": "flights", "ShardCount": 4})
    flights.resource_count_is("AWS::Lambda::Function", 0)


def test_another_word_for_the_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="elastic is true, false, or a period in seconds"):
        flights_of(tmp_path, "yes")
