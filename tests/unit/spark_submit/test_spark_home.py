"""What is missing for a Spark job is named, whether it is Spark or Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spark_submit.sparks import why_no_spark
from tests.support.spark_home import make_spark_home


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(make_spark_home(tmp_path / "spark")))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def make_java(home: Path, version: str) -> None:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)


def test_nothing_is_missing_where_both_are(
    spark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_java(tmp_path / "jdk", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert why_no_spark(installed=False) is None


def test_a_missing_spark_is_named(spark: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_HOME", "/none")
    assert why_no_spark(installed=False) == "HEADRACE_SPARK_HOME (/none) has no bin/spark-submit."


def test_a_missing_or_old_java_is_named(
    spark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("headrace.spark_submit.sparks.JAVA_FOLDERS", ())
    said = why_no_spark(installed=False)
    assert said is not None
    assert said.startswith("There is no java on the path: Spark needs Java 17 or newer;")
    make_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    said = why_no_spark(installed=False)
    assert said is not None
    assert "is Java 11: Spark needs Java 17 or newer;" in said
