"""Which jobs get the stand-in for EMR's connector `aws-kinesis`."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spark_submit.arguments import Submission
from headrace.spark_submit.connector import names_connector, stand_in

JAR = "/usr/share/aws/kinesis/spark-sql-kinesis/lib/spark-streaming-sql-kinesis-connector.jar"


def job(tmp_path: Path, source: str) -> Submission:
    file = tmp_path / "job.py"
    file.write_text(source)
    return Submission([], str(file), [])


@pytest.mark.parametrize(
    "source",
    [
        'spark.readStream.format("aws-kinesis").load()',
        'FORMAT = "aws-kinesis"',
        'spark.sql("CREATE TABLE t USING `aws-kinesis`")',
        "def broken(:  # aws-kinesis",
    ],
)
def test_a_job_whose_program_names_it_gets_it(tmp_path: Path, source: str) -> None:
    assert names_connector(job(tmp_path, source), {})


@pytest.mark.parametrize(
    "source",
    [
        '"""On EMR, --source-format aws-kinesis does it."""\nprint(1)',
        'def f():\n    """Not aws-kinesis."""\n',
        "# aws-kinesis\nprint(1)",
        "print(1)",
    ],
)
def test_a_job_that_only_writes_about_it_does_not(tmp_path: Path, source: str) -> None:
    assert not names_connector(job(tmp_path, source), {})


def test_arguments_and_jars_name_it_too(tmp_path: Path) -> None:
    plain = job(tmp_path, "print(1)")
    named = Submission([], plain.application, ["--source-format", "aws-kinesis"])
    assert names_connector(named, {})
    assert names_connector(Submission([("--jars", f"a.jar,{JAR}")], plain.application, []), {})
    assert names_connector(plain, {"spark.jars": f"file://{JAR}"})


def test_each_spark_has_its_stand_in() -> None:
    assert stand_in((3, 5)).name == "connector35"
    assert [stand_in(spark).name for spark in ((4, 0), (4, 3))] == ["connector"] * 2
    assert all(stand_in(spark).is_dir() for spark in ((3, 5), (4, 0)))
