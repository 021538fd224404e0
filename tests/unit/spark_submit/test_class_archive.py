"""The archive of Spark's classes: when it is made, and which JVMs start with it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.core.ports import BucketNotFound
from headrace.spark_submit.arguments import parse_submission
from headrace.spark_submit.class_archive import archive_of, archive_options, make_archive
from headrace.spark_submit.commands import spark_command
from headrace.spark_submit.emr_releases import traits_of
from headrace.spark_submit.environments import Environment
from headrace.spark_submit.job_context import JobContext
from headrace.spark_submit.sparks import JobSpark
from tests.support.spark_environments import HERE, make_whole

# Plays the JVM that leaves an archive when it ends, and counts its runs.
LEAVES = """\
echo run >> "$(dirname "$0")/runs"
for argument in "$@"; do
  for option in $argument; do
    case "$option" in -XX:ArchiveClassesAtExit=*) echo classes > "${option#*=}";; esac
  done
done
"""


class NoObjects:
    """An object store without buckets."""

    def file(self, bucket: str, key: str) -> Path:
        raise BucketNotFound(bucket)

    def buckets(self) -> dict[str, Path]:
        return {}


def environment_in(folder: Path, submit: str = LEAVES) -> Environment:
    environment = Environment("4.0.2", HERE, folder)
    make_whole(environment, f"#!/bin/bash\n{submit}")
    return environment


def java_in(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return home


def runs(environment: Environment) -> int:
    return len((environment.home / "bin" / "runs").read_text().splitlines())


def job_spark(environment: Environment | None, java: int | None = 17) -> JobSpark:
    home = Path("/spark") if environment is None else environment.home
    return JobSpark(
        home=home, traits=traits_of((4, 0)), python=Path("/python"), java_home=None, java=java, notes=(),
        environment=environment,
    )  # fmt: skip


def test_it_is_made_once_for_each_java(tmp_path: Path) -> None:
    environment, java = environment_in(tmp_path / "env"), java_in(tmp_path / "java", "17.0.1")
    assert make_archive(environment, java, 17) is None
    assert make_archive(environment, java, 17) is None
    assert archive_of(environment).read_text() == "classes\n"
    assert runs(environment) == 1
    assert make_archive(environment, java_in(java, "17.0.2"), 17) is None
    assert runs(environment) == 2


def test_it_is_made_once_more_when_the_jars_are_others(tmp_path: Path) -> None:
    environment, java = environment_in(tmp_path / "env"), java_in(tmp_path / "java", "17.0.1")
    (environment.home / "jars").mkdir(exist_ok=True)
    jar = environment.home / "jars" / "spark-core.jar"
    for time_s in (1, 1, 2):
        jar.touch()
        os.utime(jar, (time_s, time_s))
        assert make_archive(environment, java, 17) is None
    assert runs(environment) == 2


def test_it_is_made_once_more_after_an_end_before_it_was_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, java = environment_in(tmp_path / "env"), java_in(tmp_path / "java", "17.0.1")
    assert make_archive(environment, java, 17) is None
    java_in(java, "17.0.2")

    def fail(*_: object) -> None:
        raise OSError("ended here")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        assert make_archive(environment, java, 17) == "ended here"
    assert make_archive(environment, java, 17) is None
    assert runs(environment) == 3


def test_a_part_of_an_archive_is_not_left(tmp_path: Path) -> None:
    environment = environment_in(tmp_path / "env", f"{LEAVES}echo no room >&2; exit 1")
    assert make_archive(environment, java_in(tmp_path / "java", "17.0.1"), 17) == "no room"
    assert not [one for one in environment.folder.iterdir() if one.name.endswith(".part")]


@pytest.mark.parametrize(
    ("submit", "java", "words"),
    [
        ("echo no room >&2; exit 1", 17, "no room"),
        ("exit 3", 17, "spark-submit ended with 3"),
        ("", 17, "spark-submit ended with 0"),
        (LEAVES, 11, "Java is 11, not 17 or newer"),
        (LEAVES, None, "Java is unknown"),
    ],
)
def test_without_one_the_reason_is_said_and_nothing_is_left(
    tmp_path: Path, submit: str, java: int | None, words: str
) -> None:
    environment = environment_in(tmp_path / "env", submit)
    problem = make_archive(environment, java_in(tmp_path / "java", "17.0.1"), java)
    assert problem is not None
    assert words in problem
    assert not archive_of(environment).exists()
    assert archive_options(job_spark(environment)) == ()


def command_of(spark: JobSpark, folder: Path) -> tuple[str, str]:
    """Return the settings of a job, and the options of the JVM that starts its JVM."""
    folder.mkdir()
    context = JobContext(NoObjects(), lambda: "http://127.0.0.1:1", 2)  # type: ignore[arg-type]
    job = folder / "job.py"
    job.write_text("print()")
    _, variables, _ = spark_command(
        context, parse_submission([str(job)]), folder, spark, defaults={}, logging={}
    )
    return (folder / "conf" / "spark-defaults.conf").read_text(), variables["SPARK_LAUNCHER_OPTS"]


def test_a_job_starts_with_the_archive_and_its_jars_come_first(tmp_path: Path) -> None:
    environment = environment_in(tmp_path / "env")
    settings, launcher = command_of(job_spark(environment), tmp_path / "without")
    assert "Archive" not in settings + launcher
    assert "spark.driver.extraClassPath" not in settings
    archive_of(environment).touch()
    settings, launcher = command_of(job_spark(environment), tmp_path / "with")
    assert f"spark.driver.extraClassPath {environment.home}/jars/*\n" in settings
    option = f"-XX:SharedArchiveFile={archive_of(environment)} "
    assert option in launcher
    assert option in settings


def test_only_a_java_that_knows_archives_gets_the_options(tmp_path: Path) -> None:
    environment = environment_in(tmp_path / "env")
    archive_of(environment).touch()
    assert archive_options(job_spark(environment, java=21))
    for java in (8, 11, None):
        assert archive_options(job_spark(environment, java=java)) == ()
    assert archive_options(job_spark(None)) == ()


def test_a_path_that_spark_would_split_is_left_alone(tmp_path: Path) -> None:
    environment = environment_in(tmp_path / "a folder")
    archive_of(environment).touch()
    assert archive_options(job_spark(environment)) == ()
    plain = replace(environment, folder=tmp_path / "plain")
    plain.folder.mkdir()
    archive_of(plain).touch()
    assert archive_options(job_spark(plain)) != ()


def test_what_another_user_may_have_planted_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    environment = environment_in(tmp_path / "env")
    archive_of(environment).write_text("classes")
    assert (environment.whole, bool(archive_options(job_spark(environment)))) == (True, True)
    for path in (archive_of(environment), environment.folder):
        mode = path.stat().st_mode
        path.chmod(mode | 0o002)
        assert archive_options(job_spark(environment)) == ()
        path.chmod(mode)
    environment.folder.chmod(0o777)
    assert not environment.whole
    environment.folder.chmod(0o755)
    owner = environment.folder.stat().st_uid
    if owner:
        monkeypatch.setattr("os.getuid", lambda: owner + 1)
        assert not environment.whole
        assert archive_options(job_spark(environment)) == ()
    archive_of(environment).rename(tmp_path / "elsewhere")
    archive_of(environment).symlink_to(tmp_path / "elsewhere")
    assert archive_options(job_spark(environment)) == ()
