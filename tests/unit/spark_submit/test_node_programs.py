"""The programs of EMR's machines: which there are, which are refused by name, and s3-dist-cp."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.spark_submit import JobRefused
from headrace.spark_submit.node_programs import (
    NodeSpec,
    parse_copy,
    read_spec,
    require_program,
    script_program,
    without_cluster,
    write_programs,
)


def spec(folder: Path) -> NodeSpec:
    return NodeSpec(
        folder=str(folder), label="emr-7.13.0", installed=False, strict=False, endpoint_url="http://127.0.0.1:9",
        cores=2, file_system="", buckets={}, hdfs=str(folder / "hdfs"), defaults={"a": "b"},
        logging={"spark-log4j2": {}, "spark-log4j": {}}, exported={}, hive_site={}, variables={},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["hive-script", "--run"], "hive-script"),
        (["hadoop-streaming", "-mapper", "x"], "hadoop-streaming"),
        (["hadoop", "distcp", "a", "b"], "hadoop distcp"),
        (["hdfs", "namenode"], "hdfs namenode"),
        (["hdfs"], "hdfs"),
        (["flink", "run"], "flink"),
    ],
)
def test_what_pyspark_does_not_carry_is_refused_by_name(command: list[str], name: str) -> None:
    with pytest.raises(JobRefused, match=f"headrace does not have {name} of EMR's machines"):
        require_program(command)


@pytest.mark.parametrize(
    "command",
    [["hadoop", "fs", "-ls", "/"], ["hdfs", "dfs", "-ls"], ["hadoop", "jar", "x.jar"], ["aws", "s3", "ls"],
     ["state-pusher-script"], ["spark-sql", "-e", "select 1"], ["s3-dist-cp", "--src", "s3://a/b", "--dest=hdfs:///c"]],
)  # fmt: skip
def test_what_is_there_is_taken(command: list[str]) -> None:
    require_program(command)


def test_a_shell_does_not_get_the_cluster() -> None:
    given = ["--master", "yarn", "--deploy-mode=client", "--conf", "a=b", "-f", "s3://b/q.sql"]
    kept = without_cluster(given, dict.fromkeys(("--master", "--deploy-mode")))
    assert kept == ["--conf", "a=b", "-f", "s3://b/q.sql"]


def test_a_script_that_calls_a_missing_program_is_told_its_name(tmp_path: Path) -> None:
    programs = write_programs(spec(tmp_path))
    assert read_spec(tmp_path / "node.json") == spec(tmp_path)
    done = subprocess.run(
        ["sh", "-c", "hive -e 'select 1'"], env={"PATH": f"{programs}:/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "headrace does not have hive of EMR's machines" in done.stderr


@pytest.mark.parametrize(
    ("script", "program"),
    [
        ("s3://us-east-1.elasticmapreduce/libs/state-pusher/0.1/fetch", "state-pusher-script"),
        ("s3://elasticmapreduce/libs/hive/hive-script", "hive-script"),
        ("s3://elasticmapreduce/libs/pig/0.9/pig-script", "pig-script"),
        ("s3://elasticmapreduce/samples/run.sh", None),
        ("s3://bucket/libs/hive/hive-script", None),
    ],
)
def test_a_script_of_emrs_own_bucket_is_a_program_of_its_machines(
    script: str, program: str | None
) -> None:
    assert script_program(script) == program


# --- s3-dist-cp ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--dest", "s3://a/"], "s3-dist-cp needs --src"),
        (["--src", "s3://a/"], "s3-dist-cp needs --dest"),
        (["--src"], "--src lacks its value"),
        (["--src", "s3://a/", "--dest", "s3://b/", "--groupBy", "x"], "does not have --groupBy"),
        (["--src", "s3://a/", "--dest", "s3://b/", "--targetSize=1"], "does not have --targetSize"),
        (["--src", "ftp://a/", "--dest", "s3://b/"], "not ftp://a/"),
    ],
)
def test_a_copy_that_cannot_be_made_is_refused(arguments: list[str], sentence: str) -> None:
    with pytest.raises(JobRefused, match=sentence):
        parse_copy(arguments)
