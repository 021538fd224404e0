"""From a step to a command line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headrace.core.ports import BucketNotFound, ObjectNotFound
from headrace.services.emr.state import Cluster, Step
from headrace.services.emr.step_runs import prepare
from headrace.spark_submit import JobRefused
from headrace.spark_submit.job_context import JobContext


class Bucket:
    """An object store with one bucket, `bucket`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, bucket: str, key: str) -> Path:
        if bucket != "bucket":
            raise BucketNotFound(bucket)
        path = self._folder / key
        if not path.is_file():
            raise ObjectNotFound(key)
        return path

    def buckets(self) -> dict[str, Path]:
        return {"bucket": self._folder}


# On another, the Spark of a release is in an environment of its own, which no test fetches.
OF_THE_RELEASES_PYTHON = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the Spark that is installed here is of Python 3.11"
)


def cluster(**request: object) -> Cluster:
    return Cluster(
        id="j-1", account="123456789012", region="eu-west-1", name="c",
        request={"Instances": {}, **request}, created_ms=0, keep_alive=True,
    )  # fmt: skip


def made(tmp_path: Path, jar: str, *args: str, of: Cluster | None = None):
    step = Step(
        id="s-1", cluster_id="j-1", number=1, name="s", jar=jar, args=list(args), created_ms=0
    )
    bucket = tmp_path / "bucket"
    bucket.mkdir(exist_ok=True)
    (bucket / "job.py").write_text("print()")
    context = JobContext(Bucket(bucket), lambda: "http://127.0.0.1:1", 2)  # type: ignore[arg-type]
    return prepare(context, of or cluster(), step, tmp_path / "step")


def test_a_step_is_given_credentials_region_and_endpoint(tmp_path: Path) -> None:
    environment = made(tmp_path, "command-runner.jar", "true").environment
    assert environment["AWS_ACCESS_KEY_ID"] == "123456789012"
    assert environment["AWS_REGION"] == environment["AWS_DEFAULT_REGION"] == "eu-west-1"
    assert environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"


def test_the_clouds_own_environment_stays_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret")
    assert "AWS_SESSION_TOKEN" not in made(tmp_path, "command-runner.jar", "true").environment


@OF_THE_RELEASES_PYTHON
def test_a_spark_step_runs_a_copy_of_its_job(tmp_path: Path) -> None:
    command = made(tmp_path, "command-runner.jar", "spark-submit", "s3://bucket/job.py", "--x")
    assert command.arguments[0].endswith("/bin/spark-submit")
    assert command.arguments[-2:] == [str(tmp_path / "step" / "work" / "job.py"), "--x"]
    assert Path(command.arguments[-2]).read_text() == "print()"


def test_a_clusters_classifications_reach_the_step(tmp_path: Path) -> None:
    configurations = [
        {"Classification": "spark-defaults", "Properties": {"spark.sql.shuffle.partitions": "9"}},
        {"Classification": "spark-log4j2", "Properties": {"rootLogger.level": "info"}},
        {
            "Classification": "spark-env",
            "Configurations": [{"Classification": "export", "Properties": {"COLOUR": "blue"}}],
        },
    ]
    command = made(
        tmp_path, "command-runner.jar", "spark-submit", "s3://bucket/job.py",
        of=cluster(Configurations=configurations),
    )  # fmt: skip
    assert command.environment["COLOUR"] == "blue"
    defaults = (tmp_path / "step" / "conf" / "spark-defaults.conf").read_text()
    assert "spark.sql.shuffle.partitions 9\n" in defaults
    logging = (tmp_path / "step" / "conf" / "log4j2.properties").read_text()
    assert logging.index("rootLogger.level = warn\n") < logging.index("rootLogger.level = info\n")


def test_a_script_is_fetched_and_run(tmp_path: Path) -> None:
    command = made(
        tmp_path, "s3://eu-west-1.elasticmapreduce/libs/script-runner/script-runner.jar",
        "s3://bucket/job.py", "one",
    )  # fmt: skip
    assert command.arguments == ["bash", str(tmp_path / "step" / "work" / "job.py"), "one"]


@pytest.mark.parametrize("jar", ["script-runner.jar", "command-runner.jar"])
def test_only_the_script_is_fetched_and_its_arguments_stay_what_they_are(
    tmp_path: Path, jar: str
) -> None:
    shell = ["bash"] if jar == "command-runner.jar" else []
    command = made(tmp_path, jar, *shell, "s3://bucket/job.py", "s3://bucket/", "s3://other/x")
    script = str(tmp_path / "step" / "work" / "job.py")
    assert command.arguments == ["bash", script, "s3://bucket/", "s3://other/x"]


def test_a_script_with_an_interpreter_of_its_own_is_run_by_it(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "run.py").write_text("#!/usr/bin/env python3\n")
    command = made(tmp_path, "script-runner.jar", "s3://bucket/run.py", "one")
    script = str(tmp_path / "step" / "work" / "run.py")
    assert command.arguments == ["/usr/bin/env", "python3", script, "one"]


@pytest.mark.parametrize(
    ("jar", "args", "sentence"),
    [
        ("s3://bucket/own.jar", [], "there is no such object"),
        ("/no/such.jar", [], "The jar /no/such.jar cannot be read"),
        pytest.param(
            "command-runner.jar",
            ["spark-example", "SparkNothing"],
            "have no SparkNothing",
            marks=OF_THE_RELEASES_PYTHON,
        ),
        ("command-runner.jar", [], "no command to run"),
        ("script-runner.jar", [], "no command to run"),
        ("command-runner.jar", ["no-such-command"], 'Cannot run program "no-such-command"'),
        ("command-runner.jar", ["spark-submit"], "no application"),
        ("command-runner.jar", ["spark-submit", "s3://bucket/no.py"], "there is no such object"),
        ("command-runner.jar", ["spark-submit", "s3://other/no.py"], "there is no bucket other"),
        ("command-runner.jar", ["spark-submit", "s3://bucket/a/.."], "does not name an object"),
    ],
)
def test_what_cannot_run_is_refused_in_a_sentence(
    tmp_path: Path, jar: str, args: list[str], sentence: str
) -> None:
    with pytest.raises(JobRefused, match=sentence):
        made(tmp_path, jar, *args)


def test_a_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("headrace.spark_submit.sparks.JAVA_FOLDERS", ())
    with pytest.raises(JobRefused, match="Spark needs Java 17 or newer"):
        made(tmp_path, "command-runner.jar", "spark-submit", "s3://bucket/job.py")


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("headrace.spark_submit.sparks.JAVA_FOLDERS", ())
    with pytest.raises(JobRefused, match="is Java 8: Spark needs Java 17 or newer"):
        made(tmp_path, "command-runner.jar", "spark-submit", "s3://bucket/job.py")


@OF_THE_RELEASES_PYTHON
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("SparkPi", "pi.py"),
        ("org.apache.spark.examples.SparkPageRank", "pagerank.py"),
        ("ml.KMeansExample", "ml/kmeans_example.py"),
    ],
)
def test_an_example_of_spark_is_found_in_the_installation(
    tmp_path: Path, name: str, path: str
) -> None:
    command = made(
        tmp_path, "command-runner.jar", "spark-example", "--conf", "a=b", name, "10"
    )  # fmt: skip
    assert command.arguments[0].endswith("/bin/spark-submit")
    script, argument = command.arguments[-2:]
    assert script.endswith(f"/examples/src/main/python/{path}")
    assert Path(script).is_file()
    assert argument == "10"
    assert "a=b" in command.arguments


def test_a_clusters_own_settings_of_the_ui_and_the_history_win(tmp_path: Path) -> None:
    own = {"spark.ui.port": "4050", "spark.eventLog.dir": "s3://bucket/history"}
    configurations = [{"Classification": "spark-defaults", "Properties": own}]
    arguments = ("spark-submit", "--conf", "spark.ui.enabled=false", "s3://bucket/job.py")
    command = made(
        tmp_path, "command-runner.jar", *arguments, of=cluster(Configurations=configurations)
    )
    lines = (tmp_path / "step" / "conf" / "spark-defaults.conf").read_text().splitlines()
    settings = dict(line.split(" ", 1) for line in lines)
    assert {name: settings[name] for name in own} == own
    assert settings["spark.eventLog.enabled"] == "true"
    # spark-submit prefers its own options to every file.
    assert "spark.ui.enabled=false" in command.arguments


@pytest.mark.parametrize(("mode", "last"), [("client", ["{{a}}", "b"]), ("cluster", ["$a", "b"])])
def test_arguments_reach_a_job_as_on_emr(tmp_path: Path, mode: str, last: list[str]) -> None:
    arguments = ("spark-submit", "--deploy-mode", mode, "s3://bucket/job.py", "{{a}}", "", "b")
    command = made(tmp_path, "command-runner.jar", *arguments)
    assert command.arguments[-2:] == last
