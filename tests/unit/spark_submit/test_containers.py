"""What a container's Python finds of a job's --py-files and archives."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.spark_submit.arguments import parse_submission
from headrace.spark_submit.containers import fill_container


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
