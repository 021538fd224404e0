from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Annotations, Match, Template

from cdk.app import build
from cdk.parts import python_packages
from cdk.parts.spark_jobs import JOBS

EVERY = (
    "departures, rolling_delays, aircraft_days --output kinesis://sessions, "
    "weather_delays --weather-stream weather, fleet_enrich --planes s3://fleet/planes/, "
    "airport_board, cascades, sketches, "
    "batch_view --archive=s3://archive/flights/ --before 2013-02-01T00:00:00Z, "
    "speed_view --since 2013-02-01T00:00:00Z, serve, replay, live_view --metrics Headrace/Jobs"
)


def analytics(steps: str, **context: str) -> Template:
    app = cdk.App(context={"spark_steps": steps, **context}, analytics_reporting=False)
    return Template.from_stack(build(app)[-1])


@pytest.fixture(scope="module")
def every() -> Template:
    return analytics(EVERY)


def options(template: Template, name: str) -> list[Any]:
    """A step's arguments after the script; what CloudFormation puts together is a list itself."""
    found = template.find_resources("AWS::EMR::Step", {"Properties": {"Name": name}})
    (step,) = found.values()
    args = step["Properties"]["HadoopJarStep"]["Args"]
    return args[args.index("--py-files") + 3 :]


def test_every_job_can_be_a_step_with_its_package(every: Template) -> None:
    every.resource_count_is("AWS::EMR::Step", len(JOBS))
    for name in JOBS:
        every.has_resource_properties(
            "AWS::EMR::Step",
            {
                "Name": name,
                "HadoopJarStep": {
                    "Args": Match.array_with(["spark-submit", "--archives", "--py-files"])
                },
            },
        )


def test_every_step_brings_the_kinesis_source_which_emr_lacks(every: Template) -> None:
    for step in every.find_resources("AWS::EMR::Step").values():
        args = step["Properties"]["HadoopJarStep"]["Args"]
        py_files = json.dumps(args[args.index("--py-files") + 1])
        assert len(set(re.findall(r"[0-9a-f]{64}\.zip", py_files))) == 2


def test_every_step_brings_its_packages_to_the_driver_and_the_executors(every: Template) -> None:
    for step in every.find_resources("AWS::EMR::Step").values():
        args = step["Properties"]["HadoopJarStep"]["Args"]
        # Of the names that YARN and Spark unpack.
        assert re.search(
            r'[0-9a-f]{64}\.tgz"}, "#packages"', json.dumps(args[args.index("--archives") + 1])
        )
        # In client mode the driver runs where no archive is unpacked.
        assert args[args.index("--deploy-mode") + 1] == "cluster"
        assert {
            "spark.yarn.appMasterEnv.PYTHONPATH=./packages",
            "spark.executorEnv.PYTHONPATH=./packages",
        } < set(map(str, args))


def test_a_steps_own_options_come_last_so_that_they_count(every: Template) -> None:
    given = options(every, "aircraft_days")

    assert given[-2:] == ["--output", "kinesis://sessions"]
    assert given.count("--output") == 2
    assert options(every, "weather_delays")[-2:] == ["--weather-stream", "weather"]


def test_a_job_without_a_stream_is_told_of_none(every: Template) -> None:
    assert "--stream" not in options(every, "serve")
    assert options(every, "serve")[::2] == ["--batch", "--speed", "--output"]
    assert options(every, "batch_view")[-3:] == [
        "--archive=s3://archive/flights/",
        "--before",
        "2013-02-01T00:00:00Z",
    ]


def test_the_steps_run_in_the_order_in_which_they_are_named() -> None:
    template = analytics("speed_view,serve")
    (serve,) = template.find_resources("AWS::EMR::Step", {"Properties": {"Name": "serve"}}).values()
    (speed,) = template.find_resources("AWS::EMR::Step", {"Properties": {"Name": "speed_view"}})

    assert serve["DependsOn"] == [speed]


def test_the_nodes_may_read_and_write_what_the_options_name(every: Template) -> None:
    statements = [
        statement
        # A role's own policy has bounds: what goes beyond is a managed one.
        for kind in ("Policy", "ManagedPolicy")
        for policy in every.find_resources(f"AWS::IAM::{kind}").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]

    def allowed(what: str) -> set[str]:
        found: set[str] = set()
        for statement in statements:
            if what in str(statement["Resource"]):
                actions = statement["Action"]
                found |= {actions} if isinstance(actions, str) else set(actions)
        return found

    assert "kinesis:PutRecords" in allowed(":stream/sessions")
    assert "kinesis:GetRecords" in allowed(":stream/weather")
    assert "kinesis:PutRecords" not in allowed(":stream/weather")
    assert allowed(":s3:::fleet/planes/*") == allowed(":s3:::archive/flights/*") == {"s3:GetObject"}


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ("departing", "A step by context is one of departures, .* not 'departing'"),
        ("cascades,cascades", "The step 'cascades' is named twice"),
        ("weather_delays", "The step 'weather_delays' needs --weather-stream"),
        ("fleet_enrich --plane x", "The step 'fleet_enrich' needs --planes"),
    ],
)
def test_steps_that_cannot_run_are_refused(steps: str, sentence: str) -> None:
    # Through jsii the sentence stays the same; the kind of error need not.
    with pytest.raises(Exception, match=sentence):
        analytics(steps)


def test_a_job_that_needs_a_newer_spark_is_refused_before_its_packages_are_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(python_packages, "archive_for", None)

    with pytest.raises(
        Exception, match=r"cascades\.py needs Spark 4\.0, and emr-7\.13\.0 has Spark 3\.5\.6"
    ):
        analytics("cascades", emr_release="emr-7.13.0")


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("emr-7.99.0", None),
        ("emr-7.0.7", r"EMR has no release emr-7\.0\.7"),
        ("emr-5.36.0", r"departures\.py needs Spark 3\.5, and emr-5\.36\.0 has an older one"),
    ],
)
def test_a_release_that_may_be_newer_is_warned_of_and_another_refused(
    label: str, sentence: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "packages.tgz"
    path.touch()
    monkeypatch.setattr(python_packages, "archive_for", lambda *_: path)
    app = cdk.App(context={"emr_release": label}, analytics_reporting=False)
    if sentence is not None:
        with pytest.raises(Exception, match=sentence):
            build(app)
        return
    stack = build(app)[-1]
    Annotations.from_stack(stack).has_warning(
        "/headrace-analytics/Spark", Match.string_like_regexp(f"no release {label} of EMR is known")
    )
