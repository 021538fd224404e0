"""Which Spark, Python and Java a label's job is run with, and what is said of it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from headrace.core.extras import minor_of
from headrace.spark_submit import JobRefused
from headrace.spark_submit import sparks as sparks_module
from headrace.spark_submit.emr_releases import release_of, releases, traits_of
from headrace.spark_submit.environments import (
    CACHE_VARIABLE,
    REUSE_VARIABLE,
    find_cached,
    version_at,
)
from headrace.spark_submit.making import must_be_made
from headrace.spark_submit.sparks import Sparks, find_newest_spark_home, find_spark_home
from tests.support.spark_environments import make_whole
from tests.support.spark_home import make_spark_home

EVERY_PYTHON = {(3, minor) for minor in range(7, 15)}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, int]]:
    """A machine with every Python, of which tests take some away, no Spark, and Java 17."""
    here = set(EVERY_PYTHON)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(REUSE_VARIABLE, raising=False)
    monkeypatch.setattr("headrace.spark_submit.environments._donors", lambda: iter(()))
    monkeypatch.setattr(
        "headrace.spark_submit.environments.find_python",
        lambda version: Path(f"/python{version[1]}") if version in here else None,
    )
    monkeypatch.setattr("headrace.spark_submit.sparks.JAVA_FOLDERS", ())
    make_java(tmp_path / "java", "17.0.1", monkeypatch)
    return here


def make_java(home: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))


def test_a_label_decides_which_spark_runs(machine: set[tuple[int, int]], tmp_path: Path) -> None:
    spark = Sparks().of("emr-7.12.0")
    assert spark.traits.minor == (3, 5)
    assert must_be_made(spark)
    assert spark.environment == find_cached("3.5.6", (3, 9))
    assert spark.home.is_relative_to(tmp_path / "cache" / "3.5.6-py3.9")
    assert Sparks().of("emr-spark-8.0.0").environment == find_cached("4.0.2", (3, 11))
    # Documented: emr-7130-release.html.
    assert Sparks().of("emr-7.13.0").environment == find_cached("3.5.6", (3, 11))


def test_what_is_not_as_on_emr_is_said(machine: set[tuple[int, int]]) -> None:
    machine -= {(3, 9), (3, 11)}
    notes = "\n".join(Sparks().of("emr-7.12.0").notes)
    assert "EMR's Spark is 3.5.6-amzn-1: Amazon's patches are not in this one" in notes
    assert "Python is 3.10: this machine has no 3.9 or 3.11, which EMR's image has" in notes
    assert "has NumPy, as EMR's image is assumed to have; a job must bring all other" in notes
    notes = "\n".join(Sparks().of("emr-6.15.0").notes)
    assert "Java is 17; EMR's is 8" in notes
    assert "Python" not in notes
    assert "no ReleaseLabel: emr-spark-8.0.0 is taken" in "\n".join(Sparks().of(None).notes)


def test_a_whole_environment_says_what_its_jars_are(machine: set[tuple[int, int]]) -> None:
    environment = find_cached("4.0.2", (3, 11))
    make_whole(environment, "#!/bin/sh\n")
    (environment.home / "jars" / "scala-library-2.13.1.jar").touch()
    spark = Sparks().of("emr-spark-8.0.0")
    assert not must_be_made(spark)
    assert "Scala is 2.13.1; EMR's is 2.13.16" in spark.notes


@pytest.mark.parametrize(
    ("settings", "python"),
    [
        ({"PYSPARK_PYTHON": "/usr/bin/python3.13"}, (3, 13)),
        ({"spark.pyspark.python": "python3.12"}, (3, 12)),
        ({"PYSPARK_PYTHON": "python3"}, (3, 11)),
        # A Python that the job brings, and one that the image lacks.
        ({"PYSPARK_PYTHON": "./environment/bin/python"}, (3, 11)),
        ({"PYSPARK_PYTHON": "/usr/bin/python3.9"}, (3, 11)),
    ],
)
def test_a_job_may_name_another_python_of_the_image(
    machine: set[tuple[int, int]], settings: dict[str, str], python: tuple[int, int]
) -> None:
    assert Sparks().of("emr-spark-8.0.0", settings).environment == find_cached("4.0.2", python)


def test_an_interpreter_of_the_image_is_one_of_ours(machine: set[tuple[int, int]]) -> None:
    spark = Sparks().of("emr-spark-8.0.0")
    assert spark.interpreter_for("/usr/bin/python3.11") == str(spark.python)
    assert spark.interpreter_for("python3") == str(spark.python)
    assert spark.interpreter_for("./environment/bin/python") is None
    with pytest.raises(JobRefused, match=r"No such file or directory \(the image of emr-spark-8"):
        spark.interpreter_for("/usr/bin/python3.9")


def test_a_java_that_this_spark_does_not_run_on_is_refused(
    machine: set[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JobRefused, match=r"is Java 17: Spark 3\.1 needs Java 8 or 11; install"):
        Sparks().of("emr-6.5.0")
    make_java(tmp_path / "new", "21.0.1", monkeypatch)
    assert Sparks().of("emr-spark-8.0.0").java == 21
    with pytest.raises(JobRefused, match=r"is Java 21: Spark 3\.5 needs Java 8, 11 or 17; inst"):
        Sparks().of("emr-7.13.0")


def test_a_java_that_suits_is_looked_for_where_systems_put_them(
    machine: set[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_java(tmp_path / "jvm" / "java-8", "1.8.0_402", monkeypatch)
    make_java(tmp_path / "mine", "21.0.1", monkeypatch)
    monkeypatch.setattr(
        "headrace.spark_submit.sparks.JAVA_FOLDERS",
        (f"{str(tmp_path).lstrip('/')}/jvm/*",),
    )
    spark = Sparks().of("emr-6.5.0")
    assert (spark.java, spark.java_home) == (8, tmp_path / "jvm" / "java-8")


def test_no_python_that_this_spark_runs_with_is_said(machine: set[tuple[int, int]]) -> None:
    machine.clear()
    with pytest.raises(JobRefused, match=r"install one \(pyenv install 3\.9, or uv python inst"):
        Sparks().of("emr-7.12.0")


def test_a_label_of_an_older_headrace_that_no_table_has_is_refused(
    machine: set[tuple[int, int]],
) -> None:
    with pytest.raises(JobRefused, match=r"Spark is not known: no release emr-4\.2\.0"):
        Sparks().of("emr-4.2.0")


def test_the_installed_spark_runs_every_label_and_each_job_says_so(tmp_path: Path) -> None:
    spark = Sparks(installed=True).of("emr-7.13.0")
    assert (spark.home, spark.environment) == (find_spark_home(), None)
    assert len(spark.notes) == 1
    assert "headrace's own Python packages, whatever the label says; emr-7.13.0" in spark.notes[0]


def test_strict_refuses_the_installed_spark_for_another_minor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = Sparks(installed=True, strict=True)
    assert strict.of("emr-spark-8.0.0").traits.minor == (4, 0)
    with pytest.raises(
        JobRefused, match=r"is not the Spark 3\.5\.6-amzn-2 of emr-7\.13\.0, and --"
    ):
        strict.of("emr-7.13.0")
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(make_spark_home(tmp_path / "spark")))
    with pytest.raises(JobRefused, match="of an unknown version"):
        Sparks(strict=True).of("emr-spark-8.0.0")


def test_the_installed_spark_is_that_of_the_default_label() -> None:
    """`make run` links it, and fetches no other."""
    default = release_of(sparks_module.DEFAULT_LABEL)
    assert version_at(find_spark_home()) == default.spark_version


def test_each_spark_of_the_table_has_its_java_and_its_pythons() -> None:
    for release in releases():
        traits = traits_of(release.spark_minor)
        assert traits.needed_java.startswith("Java ")
        can = {minor_of(python) for python in release.pythons}
        assert can <= {(3, 7), *traits.pythons}, release


def test_classes_that_moved_are_where_this_spark_has_them() -> None:
    home = find_spark_home()
    traits = traits_of(minor_of(version_at(home) or ""))
    names = {
        name
        for jar in home.glob("jars/spark-sql_*.jar")
        for name in zipfile.ZipFile(jar).namelist()
    }
    for moved in (traits.checkpoint_manager, traits.write_resolver):
        assert moved.replace(".", "/") + ".class" in names
    assert traits_of((3, 5)).checkpoint_manager == traits_of((4, 0)).checkpoint_manager
    assert ".checkpointing." in traits_of((4, 1)).checkpoint_manager


def test_the_history_server_is_of_the_newest_spark_that_is_here(
    machine: set[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_newest_spark_home() == find_spark_home()
    make_whole(find_cached("3.5.6", (3, 9)), "#!/bin/sh\n")
    assert find_newest_spark_home() == find_spark_home()
    newer = find_cached("4.1.1", (3, 11))
    make_whole(newer, "#!/bin/sh\n")
    assert find_newest_spark_home() == newer.home
    home = make_spark_home(tmp_path / "spark")
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(home))
    assert find_newest_spark_home() == home
