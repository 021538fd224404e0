"""What a container's Python finds of a job's --py-files and archives."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.spark_submit.arguments import parse_submission
from headrace.spark_submit.containers import fill_container, without_unpacked


def path_of(work: Path, *options: str, environment: dict[str, str] | None = None) -> list[str]:
    submission = parse_submission([*options, "s3://b/job.py"])
    return fill_container(submission, {}, work, environment or {})["PYTHONPATH"].split(os.pathsep)


def test_py_files_are_on_the_path_behind_what_the_job_puts_there(tmp_path: Path) -> None:
    for name in ("a.zip", "b.py", "c.py"):
        (tmp_path / name).touch()

    found = path_of(
        tmp_path,
        *("--conf", "spark.yarn.appMasterEnv.PYTHONPATH=./packages"),
        *("--py-files", "s3://bucket/a.zip,s3://bucket/b.py,s3://bucket/c.py"),
    )

    assert found == ["./packages", str(tmp_path / "a.zip"), str(tmp_path / "__pyfiles__")]
    assert {path.name for path in (tmp_path / "__pyfiles__").iterdir()} == {"b.py", "c.py"}


def test_without_any_the_path_is_left_alone(tmp_path: Path) -> None:
    assert fill_container(parse_submission(["s3://b/job.py"]), {}, tmp_path, {}) == {}


def test_an_archive_that_yarn_unpacks_is_not_sparks_too() -> None:
    submission = parse_submission(
        ["--archives", "s3://b/a.tgz#a,s3://b/b.zip", "s3://b/job.py", "--archives", "x#y"]
    )
    given = ["--master", "local[*]", "--archives", "/w/a.tgz#a,/w/b.zip", "/w/job.py"]

    found = without_unpacked(submission, [*given, "--archives", "x#y"])

    assert found == [
        *("--master", "local[*]", "--archives", "/w/b.zip", "/w/job.py", "--archives", "x#y")
    ]
    one = parse_submission(["--archives", "s3://b/a.tgz#a", "s3://b/job.py"])
    assert without_unpacked(one, ["--archives", "/w/a.tgz#a", "/w/job.py"]) == ["/w/job.py"]
