"""What a job finds in its working directory and on its path: --files, --archives, --py-files."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from headrace.spark_submit import JobRefused
from headrace.spark_submit.arguments import (
    expanded_by_yarn,
    file_items,
    parse_submission,
    with_file_options,
)
from headrace.spark_submit.commands import driver_environment, place_files


def path_of(work: Path, *options: str, environment: dict[str, str] | None = None) -> list[str]:
    submission = parse_submission([*options, "s3://b/job.py"])
    added = driver_environment(submission, {}, work, environment or {})
    return added["PYTHONPATH"].split(os.pathsep)


def test_py_files_are_on_the_path_behind_what_the_job_puts_there(tmp_path: Path) -> None:
    for name in ("a.zip", "b.py", "c.py"):
        (tmp_path / name).touch()

    found = path_of(
        tmp_path,
        *("--conf", "spark.yarn.appMasterEnv.PYTHONPATH=./packages"),
        *("--py-files", f"{tmp_path}/a.zip,{tmp_path}/b.py,{tmp_path}/c.py"),
    )

    assert found == ["./packages", str(tmp_path / "a.zip"), str(tmp_path / "__pyfiles__")]
    assert {path.name for path in (tmp_path / "__pyfiles__").iterdir()} == {"b.py", "c.py"}


def test_without_any_the_path_is_left_alone(tmp_path: Path) -> None:
    assert driver_environment(parse_submission(["s3://b/job.py"]), {}, tmp_path, {}) == {}


def test_files_have_their_names_and_archives_are_folders(tmp_path: Path) -> None:
    work, sources = tmp_path / "work", tmp_path / "sources"
    work.mkdir()
    sources.mkdir()
    (sources / "prod.json").write_text("{}")
    (work / "fetched.ini").write_text("x")
    for name in ("env.zip", "data.zip"):
        with zipfile.ZipFile(sources / name, "w") as archive:
            archive.writestr("inside.txt", name)
    submission = parse_submission([
        "--files", f"{sources}/prod.json#settings.json,{work}/fetched.ini",
        "--archives", f"{sources}/env.zip#environment,{sources}/data.zip", "job.py", "--archives", "x#y",
    ])  # fmt: skip

    for_spark = place_files(submission, work)

    assert (work / "settings.json").read_text() == "{}"
    # Spark gives a link its target's name.
    assert (work / "settings.json").resolve().name == "settings.json"
    assert (work / "environment" / "inside.txt").read_text() == "env.zip"
    # As on YARN: without a name, the folder has the archive's.
    assert (work / "data.zip" / "inside.txt").read_text() == "data.zip"
    assert file_items(for_spark, "--files") == [f"{work}/settings.json", f"{work}/fetched.ini"]
    assert not file_items(for_spark, "--archives")
    assert for_spark.arguments == ["--archives", "x#y"]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobRefused, match="does not exist"):
        place_files(parse_submission(["--files", f"{tmp_path}/none#a", "job.py"]), tmp_path)


@pytest.mark.parametrize(
    ("option", "own", "of_yarn"),
    [
        ("--files", "spark.files", "spark.yarn.dist.files"),
        ("--archives", "spark.archives", "spark.yarn.dist.archives"),
        ("--jars", "spark.jars", "spark.yarn.dist.jars"),
        ("--py-files", "spark.submit.pyFiles", "spark.yarn.dist.pyFiles"),
    ],
)
def test_properties_name_files_too(option: str, own: str, of_yarn: str) -> None:
    def items(*arguments: str, yarn: bool = True, **defaults: str) -> list[str]:
        submission = parse_submission([*arguments, "job.py"])
        return file_items(with_file_options(submission, defaults, yarn=yarn), option)

    more = ["--conf", f"{own}=b", "--conf", f"{of_yarn}=c,d"]
    assert items(option, "a", *more) == ["a", "c", "d"]
    assert items(*more) == ["b", "c", "d"]
    assert items(*more, yarn=False) == ["b"]
    assert items(option, "a", option, "e") == ["e"]
    assert items(**{of_yarn: "z"}) == ["z"]
    assert items() == []


def test_yarn_expands_braces_in_a_drivers_arguments() -> None:
    given = parse_submission(["job.py", '{"x": {"y": 1}}', "{{z}}", "{a}"])
    assert expanded_by_yarn(given).arguments == ['{"x": {"y": 1', "$z", "{a}"]
