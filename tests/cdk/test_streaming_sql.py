"""Streaming SQL as a step: its resources, its permissions, what is refused, and what the linter sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_kinesis as kinesis
from aws_cdk.assertions import Match, Template

from cdk.parts import python_packages
from cdk.parts.streaming_sql import StreamingSql
from headrace.lint.template import Template as LintedTemplate

QUERIES = """
CREATE STREAM flights (id VARCHAR KEY, origin VARCHAR, delay INT) WITH (stream = 'flights');
CREATE STREAM late AS SELECT id, origin, delay FROM flights WHERE delay > 15;
CREATE TABLE delays AS SELECT origin, COUNT(*) AS n FROM late GROUP BY origin;
SET 'errors.stream' = 'bad';
"""


def synthesize(folder: Path, text: str = QUERIES, **arguments: Any) -> Template:
    folder.mkdir(exist_ok=True)
    (folder / "delays.sql").write_text(text)
    stack = Stack(App(outdir=str(folder / "out")), "sql")
    if "source" not in arguments:
        arguments["source"] = kinesis.Stream(stack, "Flights", stream_name="flights-of-2013")
    StreamingSql(stack, "Delays", sql=folder / "delays.sql", **arguments)
    return Template.from_stack(stack)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return synthesize(tmp_path_factory.mktemp("sql"))


def test_it_is_a_step_with_the_streams_that_it_writes(template: Template) -> None:
    template.resource_count_is("AWS::Kinesis::Stream", 4)
    template.resource_count_is("AWS::EMR::Cluster", 1)
    (step,) = template.find_resources("AWS::EMR::Step").values()
    args = step["Properties"]["HadoopJarStep"]["Args"]
    assert args[:2] == ["spark-submit", "--jars"]
    names = [args[i + 1] for i, word in enumerate(args) if word == "--stream"]
    parts = [one["Fn::Join"][1] for one in names]
    assert [part[0] for part in parts] == ["flights=", "delays=", "late=", "bad="]
    assert "FlightsC" in parts[0][1]["Ref"] or parts[0][1]["Ref"].startswith("Flights")


def test_the_nodes_may_read_what_the_queries_read_and_write_what_they_write(
    template: Template,
) -> None:
    text = json.dumps(template.find_resources("AWS::IAM::Policy"))
    assert '"kinesis:*"' not in text
    assert '"s3:*"' not in text
    allowed: dict[str, set[str]] = {}
    for policy in template.find_resources("AWS::IAM::Policy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            actions, resources = statement["Action"], statement["Resource"]
            for resource in resources if isinstance(resources, list) else [resources]:
                name = json.dumps(resource)
                for action in [actions] if isinstance(actions, str) else actions:
                    if action in ("kinesis:GetRecords", "kinesis:PutRecords"):
                        allowed.setdefault(action, set()).add(name)
    # flights and late; late, delays and bad.
    assert (len(allowed["kinesis:GetRecords"]), len(allowed["kinesis:PutRecords"])) == (2, 3)
    assert len(allowed["kinesis:GetRecords"] & allowed["kinesis:PutRecords"]) == 1  # late


def test_the_linter_sees_a_step_that_may_not_read_its_stream(template: Template) -> None:
    body = template.to_json()
    linted = LintedTemplate(dict(body))
    (step,) = linted.of_type("AWS::EMR::Step")
    targets = {one.type for one in step.targets("HadoopJarStep", "Args")}
    assert "AWS::Kinesis::Stream" in targets


@pytest.mark.parametrize(
    ("text", "source", "message"),
    [
        (
            QUERIES.replace("delay > 15", "dely > 15"),
            None,
            "line 3, column .* did you mean 'delay'",
        ),
        ("CREATE STREAM a (x INT) WITH (stream = 'a');", None, "has no query"),
        (QUERIES, {}, "the queries read flights, which source does not name"),
    ],
)
def test_a_mistake_is_said_with_its_place(
    tmp_path: Path, text: str, source: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        synthesize(tmp_path, text, **({} if source is None else {"source": source}))


def test_streams_and_a_cluster_of_others_are_taken(tmp_path: Path) -> None:
    stack = Stack(App(outdir=str(tmp_path / "o")), "other")
    late = kinesis.Stream.from_stream_arn(
        stack, "Late", "arn:aws:kinesis:us-east-1:123456789012:stream/late-ones"
    )
    template = synthesize(tmp_path, targets={"late": late})
    template.resource_count_is("AWS::Kinesis::Stream", 3)
    args = Match.array_with(["late=late-ones"])
    template.has_resource_properties("AWS::EMR::Step", {"HadoopJarStep": {"Args": args}})


def test_an_object_that_a_query_joins_may_be_read(tmp_path: Path) -> None:
    text = (
        QUERIES.partition("CREATE TABLE")[0]
        + """
    CREATE TABLE airports (origin VARCHAR PRIMARY KEY, name VARCHAR) WITH (stream = 's3://facts/airports.json');
    CREATE STREAM named AS SELECT f.id, a.name FROM flights f LEFT JOIN airports a ON f.origin = a.origin;"""
    )
    template = json.dumps(synthesize(tmp_path, text).find_resources("AWS::IAM::Policy"))
    assert ":s3:::facts/airports.json*" in template


PATTERN = """CREATE STREAM s (a INT) WITH (stream = 's');
CREATE STREAM x AS SELECT * FROM s MATCH_RECOGNIZE (MEASURES a AS b PATTERN (r)) AS m;"""


def test_a_row_patterns_packages_come_with_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "packages.tgz"
    archive.write_bytes(b"packages")
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        python_packages, "archive_for", lambda *parts: (asked.append(parts), archive)[1]
    )
    template = synthesize(tmp_path, PATTERN)
    assert [parts[1:] for parts in asked] == [("emr-spark-8.0.0", "m5.xlarge")]
    (step,) = template.find_resources("AWS::EMR::Step").values()
    args = step["Properties"]["HadoopJarStep"]["Args"]
    assert args[3:6] == ["--deploy-mode", "cluster", "--archives"]
    assert '.tgz"}, "#packages"' in json.dumps(args[6])
    assert "spark.executorEnv.PYTHONPATH=./packages" in args
    # Nothing is fetched for what brings its own, and nothing is brought for what needs none.
    synthesize(tmp_path / "own", PATTERN, packages=archive)
    assert "--archives" not in json.dumps(synthesize(tmp_path / "none").to_json())
    assert len(asked) == 1


def test_a_queries_own_function_is_read_beside_it_and_a_cloud_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def twice(n):\n    return n * 2\n")
    text = "CREATE FUNCTION twice (n INT) RETURNS INT FROM 'f.py';" + QUERIES.replace(
        "delay > 15", "twice(delay) > 30"
    )
    synthesize(tmp_path, text).resource_count_is("AWS::EMR::Step", 1)
    inferred = "CREATE STREAM x FROM STREAM 'x' INFER; CREATE STREAM y AS SELECT * FROM x;"
    with pytest.raises(
        ValueError, match="INFER reads the records of x, and no cloud is asked here"
    ):
        synthesize(tmp_path, inferred)


def test_late_rows_of_a_join_have_a_stream_that_the_nodes_may_write(tmp_path: Path) -> None:
    text = """CREATE STREAM a (id VARCHAR KEY, k INT) WITH (stream = 'a');
    CREATE STREAM b (id VARCHAR KEY, k INT) WITH (stream = 'b');
    SET 'late.stream' = 'lates';
    CREATE STREAM met AS SELECT a.id, b.id AS other FROM a JOIN b WITHIN 1 HOUR GRACE PERIOD 1 MINUTE ON a.k = b.k;"""
    stack = Stack(App(outdir=str(tmp_path / "out")), "sql")
    (tmp_path / "met.sql").write_text(text)
    source = {one: kinesis.Stream(stack, one.upper(), stream_name=one) for one in ("a", "b")}
    StreamingSql(stack, "Met", sql=tmp_path / "met.sql", source=source)
    template = Template.from_stack(stack)
    template.resource_count_is("AWS::Kinesis::Stream", 4)
    (step,) = template.find_resources("AWS::EMR::Step").values()
    args = step["Properties"]["HadoopJarStep"]["Args"]
    names = [args[i + 1]["Fn::Join"][1] for i, word in enumerate(args) if word == "--stream"]
    (lates,) = (one[1]["Ref"] for one in names if one[0] == "lates=")
    policies = template.find_resources("AWS::IAM::Policy").values()
    statements = [
        one for policy in policies for one in policy["Properties"]["PolicyDocument"]["Statement"]
    ]
    assert any(
        lates in json.dumps(one) and "kinesis:PutRecords" in one["Action"] for one in statements
    )
