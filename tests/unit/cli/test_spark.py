"""`headrace spark`: Sparks are made ahead, listed and removed by their labels."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli import options
from headrace.cli.commands import headrace
from headrace.spark_submit.environments import CACHE_VARIABLE, REUSE_VARIABLE, find_python
from tests.support.spark_environments import make_python


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(REUSE_VARIABLE, "")
    make_python(tmp_path / "py", f". {tmp_path}/pip", "3.9")
    (tmp_path / "pip").write_text("pyspark 3.5.6\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/py{os.pathsep}{os.environ['PATH']}")
    find_python.cache_clear()
    yield tmp_path / "cache"
    find_python.cache_clear()


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(headrace, ["spark", *arguments])
    return done.exit_code, done.output


def test_a_spark_is_made_ahead_listed_and_removed(cache: Path) -> None:
    folder = cache / "3.5.6-py3.9"
    code, said = run("install", "emr-7.12.0")
    assert code == 0, said
    assert f"emr-7.12.0: Spark 3.5.6 with Python 3.9 in {folder}\n" in said
    assert "Amazon's patches are not in this one" in said
    code, said = run("install", "emr-7.12.0")
    assert "installing" not in said
    head, *rows = (line.rstrip() for line in run("list")[1].splitlines())
    assert head.split() == ["label", "Spark", "Python", "folder"]
    lines = {line.split()[0]: line for line in rows}
    assert lines["emr-7.12.0"].endswith(f" {folder}")
    assert lines["emr-spark-8.0.0"].endswith("not made yet")
    listed = {row["label"]: row for row in json.loads(run("list", "--json")[1])}
    assert listed["emr-7.12.0"]["folder"] == str(folder)
    assert listed["emr-spark-8.0.0"]["folder"] is None
    assert run("remove", "3.5.6") == (0, f"removed {folder}\n")
    code, said = run("remove", "emr-7.12.0")
    assert (code, said) == (
        1,
        f"Error: There is no Spark 3.5.6 in {cache}; see: headrace spark list\n",
    )


def test_the_list_fits_a_terminal(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    folder = cache / ("deep" * 20)
    monkeypatch.setenv(CACHE_VARIABLE, str(folder))
    run("install", "emr-7.12.0")
    code, said = run("list")
    assert code == 0
    assert max(map(len, said.splitlines())) <= 80
    # Folded, not cut.
    assert "deep" * 20 in "".join(line[-40:].strip() for line in said.splitlines())


@pytest.mark.parametrize("arguments", [("install", "emr-7.99.0"), ("remove", "mine")])
def test_an_unknown_label_is_one_sentence(cache: Path, arguments: tuple[str, str]) -> None:
    code, said = run(*arguments)
    assert code == 1
    assert said.startswith(f"Error: no release {arguments[1]} of EMR is known; ")
    assert said.endswith("see: headrace spark list\n")


def test_a_failed_installation_is_one_sentence(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "pip").write_text("echo 'No space left on device'; exit 1\n")
    code, said = run("install", "emr-7.12.0")
    assert code == 1
    assert said.splitlines()[-1] == (
        "Error: Spark 3.5.6 could not be installed: there is no space left on the disk. When there is: "
        "headrace spark install emr-7.12.0"
    )
