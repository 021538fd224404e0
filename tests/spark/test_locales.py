"""Real Spark where every folder has letters outside ASCII, and the cloud was started in LC_ALL=C."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from click.testing import CliRunner

from headrace.cli.commands import headrace
from headrace.spark_submit.job_context import VARIABLES
from tests.support.command import begin
from tests.support.server import ServerProcess

pytestmark = pytest.mark.spark

JOB = """\
import json, sys
from pyspark.sql import SparkSession
from hilfe_ü import NUMBER
spark = SparkSession.builder.getOrCreate()
folder = sys.argv[1]
spark.range(1).selectExpr("'wört 数' text").write.text(folder)
found = spark.read.text(folder).collect()[0].value
print(json.dumps([found, NUMBER, sys.argv[2]], ensure_ascii=False))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with umlauts, Chinese and a space, with Spark in it."""
    folder = tmp_path / "Übung 测试"
    folder.mkdir()
    (folder / "spark").symlink_to(Path(pyspark.__file__).parent)
    (folder / "jöb 作业.py").write_text(JOB, encoding="utf-8")
    (folder / "hilfe_ü.py").write_text("NUMBER = 'ä数'\n", encoding="utf-8")
    return folder


@contextmanager
def in_locale(name: str, place: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for variable in VARIABLES:
            patched.delenv(variable, raising=False)
        patched.setenv("LC_ALL", name)
        patched.setenv("HEADRACE_SPARK_HOME", str(place / "spark"))
        yield


@contextmanager
def cloud_in(name: str, place: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(place / "Daten ü 数")
    with in_locale(name, place):
        server.start()
    try:
        yield server
    finally:
        server.stop()


def submit(server: ServerProcess, place: Path, *options: str) -> Any:
    server.client("s3").create_bucket(Bucket="out")
    arguments = ["--py-files", str(place / "hilfe_ü.py"), str(place / "jöb 作业.py")]
    done = CliRunner().invoke(
        headrace,
        ["submit", *options, "--endpoint-url", server.endpoint_url, *arguments,
         "s3://out/Ergebnis ü 结果", "Ärgument 参数"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def check(server: ServerProcess, place: Path, *options: str) -> None:
    assert submit(server, place, *options) == ["wört 数", "ä数", "Ärgument 参数"]
    listed = server.client("s3").list_objects_v2(Bucket="out", Prefix="Ergebnis ü 结果/")
    assert "Ergebnis ü 结果/_SUCCESS" in [item["Key"] for item in listed["Contents"]]
    # Nothing was written under a name that was read in another encoding.
    assert {path.name for path in place.parent.iterdir()} == {place.name}


@pytest.mark.slow
def test_a_step_runs_in_any_folder(place: Path) -> None:
    with cloud_in("C", place) as server:
        check(server, place)


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--serverless"]])
@pytest.mark.parametrize("name", ["POSIX", "none.UTF-8"])
def test_a_job_runs_in_any_folder_and_locale(place: Path, name: str, options: list[str]) -> None:
    with cloud_in(name, place) as server:
        check(server, place, *options)


@pytest.mark.slow
def test_the_history_of_a_job_is_shown_in_any_folder(place: Path) -> None:
    with cloud_in("C", place) as server:
        check(server, place)
        data_dir = server.data_dir
    with (
        in_locale("C", place),
        begin("history", "--port", "0", "--data-dir", str(data_dir)) as history,
    ):
        assert history.stdout is not None
        said = history.stdout.readline()
        history.terminate()
    assert re.match(r"Spark's history server is listening on .* \(1 application so far", said)
