"""Which jobs get the stand-in for EMR's connector `aws-kinesis`."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

import headrace
from headrace.spark_submit import JobRefused, making
from headrace.spark_submit.arguments import Submission
from headrace.spark_submit.emr_releases import releases
from headrace.spark_submit.environments import CACHE_VARIABLE, Environment, find_cached
from headrace.spark_submit.making import (
    is_made,
    make_packages,
    names_connector,
    names_own_source,
    packages_folder,
    read_sources,
    source_folder,
    stand_in,
)

JAR = "/usr/share/aws/kinesis/spark-sql-kinesis/lib/spark-streaming-sql-kinesis-connector.jar"


def job(tmp_path: Path, source: str) -> Submission:
    file = tmp_path / "job.py"
    file.write_text(source)
    return Submission([], str(file), [])


def names(submission: Submission, properties: Mapping[str, str] = MappingProxyType({})) -> bool:
    return names_connector(submission, properties, read_sources(submission, properties))


def names_own(submission: Submission, spark: Any) -> bool:
    return names_own_source(submission, spark, read_sources(submission, {}))


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
    assert names(job(tmp_path, source))


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
    assert not names(job(tmp_path, source))


@pytest.mark.parametrize(
    ("source", "minor", "named"),
    [
        ('spark.readStream.format("kinesis").load()', (4, 0), True),
        ('NAME = "kinesis"', (4, 1), True),
        # Spark 3.5 has no sources in Python: `headrace.spark.streams` reads there.
        ('spark.readStream.format("kinesis").load()', (3, 5), False),
        ('boto3.client("firehose"), "a kinesis stream", "aws-kinesis"', (4, 0), False),
        ('boto3.client("kinesis").put_record(StreamName="s")', (4, 0), False),
        ('boto3.Session().resource(service_name="kinesis")', (4, 0), False),
        ('boto3.client("kinesis"); spark.readStream.format("kinesis")', (4, 0), True),
        ('"""kinesis"""', (4, 0), False),
        ("# kinesis", (4, 0), False),
    ],
)
def test_a_job_that_names_headrace_s_own_source_gets_it(
    tmp_path: Path, source: str, minor: tuple[int, int], named: bool
) -> None:
    spark: Any = SimpleNamespace(traits=SimpleNamespace(minor=minor))
    assert names_own(job(tmp_path, source), spark) is named
    given = Submission([], job(tmp_path, "print(1)").application, ["--format", "kinesis"])
    assert names_own(given, spark) is (minor >= (4, 0))
    # headrace_spark.zip has the source: the job registers that one, and brings its packages.
    zipped = tmp_path / "headrace_spark.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.write(Path(headrace.__file__).parent / "spark" / "source.py", "source.py")
    brought = Submission([("--py-files", str(zipped))], given.application, given.arguments)
    assert not names_own(brought, spark)


def test_arguments_and_jars_name_it_too(tmp_path: Path) -> None:
    plain = job(tmp_path, "print(1)")
    named = Submission([], plain.application, ["--source-format", "aws-kinesis"])
    assert names(named)
    assert names(Submission([("--jars", f"a.jar,{JAR}")], plain.application, []))
    assert names(plain, {"spark.jars": f"file://{JAR}"})


def test_each_spark_has_its_stand_in() -> None:
    assert stand_in((3, 5)).name == "connector35"
    assert [stand_in(spark).name for spark in ((4, 0), (4, 3))] == ["connector"] * 2
    assert all(stand_in(spark).is_dir() for spark in ((3, 5), (4, 0)))


@pytest.mark.parametrize("kind", ["py", "zip", "egg"])
def test_a_module_of_py_files_names_it_too(tmp_path: Path, kind: str) -> None:
    source = 'def read(spark):\n    return spark.readStream.format("aws-kinesis").load()\n'
    library = tmp_path / f"library.{kind}"
    if kind == "py":
        library.write_text(source)
    else:
        with zipfile.ZipFile(library, "w") as archive:
            archive.writestr("library/streams.py", source)
    plain = job(tmp_path, "import library")
    named = Submission([("--py-files", f"a.py,{library}")], plain.application, [])
    assert names(named)
    assert names(plain, {"spark.submit.pyFiles": str(library)})
    assert not names(plain)


def test_the_images_have_the_connector_from_7_1_0_on() -> None:
    without = {release.label for release in releases() if not release.has_kinesis_connector}
    assert "emr-7.0.0" in without
    assert not without & {"emr-7.1.0", "emr-7.13.0", "emr-spark-8.0.0", "emr-spark-8.0-preview"}
    assert {"emr-6.15.0", "emr-6.0.0"} <= without


def wheel(folder: Path, name: str, version: str, source: str, *, python: str = ">=3.8") -> None:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}/__init__.py", source)
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {python}\n",
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pip index with a PyArrow that fits NumPy 1 and one that refuses it; boto3 also for another Python only."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel(folder, "pyarrow", "25.0.0", "")
    wheel(folder, "pyarrow", "26.0.0", "raise ImportError('pyarrow requires NumPy 2.0 or newer')")
    wheel(folder, "boto3", "1.0", "")
    wheel(folder, "boto3", "2.0", "raise SyntaxError('too new')", python=">=4")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return folder


def environment_with(spark: str, numpy: str) -> Environment:
    environment = find_cached(spark, sys.version_info[:2])
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(environment.folder)], check=True
    )
    (environment.packages / "numpy").mkdir()
    (environment.packages / "numpy" / "__init__.py").write_text(f"__version__ = {numpy!r}\n")
    return environment


def imported(environment: Environment, module: str) -> str:
    program = f"import {module}; print({module}.__file__)"
    path = str(packages_folder(environment))
    return subprocess.run(
        [str(environment.interpreter), "-c", program], env={"PYTHONPATH": path},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


@pytest.mark.usefixtures("index")
def test_the_packages_fit_the_numpy_and_the_python_of_the_label() -> None:
    environment = environment_with("3.5.6", "1.26.4")
    assert not is_made(environment)
    make_packages(environment)
    assert is_made(environment)
    assert str(packages_folder(environment)) in imported(environment, "pyarrow")
    assert str(packages_folder(environment)) in imported(environment, "boto3")
    assert packages_folder(environment) != packages_folder(find_cached("4.0.2", (3, 11)))


def test_packages_that_do_not_run_are_refused_and_leave_nothing(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in index.glob("pyarrow-*"):
        path.unlink()
    wheel(index, "pyarrow", "24.0.0", "raise ImportError('no such file libarrow')")

    def unpack(folder: Path, _environment: Environment) -> None:
        for path in index.glob("*.whl"):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(folder)

    # As pip leaves them; that it installs them, and which, is the test before.
    monkeypatch.setattr(making, "_install", unpack)
    environment = environment_with("3.5.6", "1.26.4")
    with pytest.raises(JobRefused, match="no such file libarrow"):
        make_packages(environment)
    assert not is_made(environment)


def test_a_job_sees_the_source_and_nothing_else_of_headrace(tmp_path: Path) -> None:
    for _ in range(2):
        folder = source_folder(tmp_path / "job")
    assert sorted(path.name for path in (folder / "headrace").iterdir()) == ["__init__.py", "spark"]
    assert (folder / "headrace" / "spark" / "source.py").is_file()
