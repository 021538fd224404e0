"""The Sparks that the tests run on are those that EMR's releases have, and two newer ones."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from cdk.parts.python_packages import RELEASE
from headrace.core.extras import format_minor, minor_of
from headrace.spark_submit.emr_releases import DEFAULT_LABEL, release_of, releases, traits_of
from scripts import spark_matrix
from scripts.spark_matrix import MATRIX, core_of

ROOT = Path(__file__).parents[2]
OLDEST = (3, 5)


def test_every_spark_of_a_release_is_tested_in_its_newest_documented_version() -> None:
    newest: dict[str, str] = {}
    for release in releases():
        if release.spark_minor >= OLDEST and release.evidence == "documented":
            newest.setdefault(format_minor(release.spark_minor), release.spark_version)

    assert newest == {minor: MATRIX[minor].spark for minor in newest}
    assert {"3.5", "4.0"} <= set(newest)


def test_a_tested_spark_is_of_its_minor_version_and_runs_with_its_python() -> None:
    for minor, tested in MATRIX.items():
        assert format_minor(minor_of(tested.spark)) == minor
        assert minor_of(tested.python) in traits_of(minor_of(minor)).pythons


def test_what_has_a_release_is_run_as_that_release() -> None:
    labels = {minor: tested.label for minor, tested in MATRIX.items()}

    assert labels == {
        "3.5": "emr-7.12.0",
        "4.0": "emr-spark-8.0.0",
        "4.1": "emr-spark-8.1.0",
        "4.2": None,
        "4.3": None,
    }
    # The oldest Python of EMR 7: what runs there runs with 3.11 too.
    assert release_of("emr-7.12.0").python == MATRIX["3.5"].python == "3.9"


def test_the_default_environment_has_the_spark_of_the_apps_release() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pyspark = next(
        line for line in project["optional-dependencies"]["spark"] if line.startswith("pyspark")
    )

    assert pyspark == f"pyspark=={MATRIX['4.0'].spark}"
    assert MATRIX["4.0"].label == RELEASE == DEFAULT_LABEL


def test_what_make_test_runs_on_the_oldest_and_the_newest_is_there() -> None:
    for name in {name for minor in MATRIX for name in core_of(minor)}:
        path, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / path).read_text() or not test


def test_another_version_is_refused_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        spark_matrix.main(["3.4"])
    assert "invalid choice: '3.4'" in capsys.readouterr().err
