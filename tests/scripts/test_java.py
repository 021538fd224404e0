"""The `java` of the tests: what it adds to the command lines of Spark's JVMs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import java

SUBMIT = "org.apache.spark.deploy.SparkSubmit"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a SPARK_HOME of jars, and see to archives of its own."""
    monkeypatch.setattr(java, "ARCHIVES", tmp_path / "archives")
    (tmp_path / "archives").mkdir()
    (tmp_path / "spark/jars").mkdir(parents=True)
    return tmp_path / "spark"


def started(folder: Path, *arguments: str, makes_archive: bool = False) -> list[str]:
    """Return the arguments with which the machine's own `java` is started."""
    real = folder / "real"
    real.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    real.chmod(0o755)
    java.make_java(folder / "home", str(real), makes_archive=makes_archive)
    command = [folder / "home/bin/java", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_spark_s_jvm_takes_the_archive_and_its_jars_come_first(home: Path, tmp_path: Path) -> None:
    archive = java.archive_of(home)
    archive.touch()
    given = ("-cp", f"/a step/conf/:{home}/jars/*:/more.jar", "-Xmx1g", SUBMIT, "--name", "a b")
    found = started(tmp_path, *given)
    assert f"-XX:SharedArchiveFile={archive}" in found
    at = found.index("-cp")
    assert found[at + 1] == f"{home.resolve()}/jars/*:/a step/conf/:/more.jar"
    assert found[at + 2 :] == ["-Xmx1g", SUBMIT, "--name", "a b"]


@pytest.mark.parametrize("path", ["/other/*:/conf", "{home}/jars/*"])
def test_without_an_archive_nothing_of_the_class_path_changes(
    home: Path, tmp_path: Path, path: str
) -> None:
    given = ["-cp", path.format(home=home), SUBMIT]
    found = started(tmp_path, *given)
    assert found[-3:] == given
    assert not any("Archive" in argument for argument in found)


def test_only_the_job_s_jvm_leaves_an_archive(home: Path, tmp_path: Path) -> None:
    launched = started(
        tmp_path, "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main", makes_archive=True
    )
    assert not any("Archive" in argument for argument in launched)


def test_the_job_s_jvm_leaves_an_archive_beside_its_place(home: Path, tmp_path: Path) -> None:
    found = started(tmp_path, "-cp", f"{home}/jars/*", SUBMIT, makes_archive=True)
    assert f"-XX:ArchiveClassesAtExit={java.archive_of(home)}.part" in found


def test_a_step_without_the_tests_variables_has_their_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = "-Dspark.sql.adaptive.enabled=false"
    monkeypatch.setenv(java.SETTINGS, "")
    assert setting not in started(tmp_path, SUBMIT)
    monkeypatch.setattr(java, "_own_folder", tmp_path / "home")
    java.interpret_queries()
    # As a cloud gives a step none of its variables.
    monkeypatch.delenv(java.SETTINGS)
    program = tmp_path / "home/bin/java"
    found = subprocess.run([program, SUBMIT], capture_output=True, text=True, check=True).stdout
    assert setting in found.splitlines()
