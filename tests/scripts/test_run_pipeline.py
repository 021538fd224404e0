"""`make run` itself: interrupted it stops what it has started, and it empties no folder of anybody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.running_cloud import health
from scripts.pipeline.run import StageError
from scripts.pipeline.stages import is_expendable, start
from tests.support.command import INTERRUPTED, begin_python

ROOT = Path(__file__).parents[2]

# Sends itself Ctrl-C where the pipeline would be deployed.
AT_DEPLOYING = """
import os, runpy, signal, sys
import scripts.run_pipeline

scripts.run_pipeline.deploy = lambda *_: os.kill(os.getpid(), signal.SIGINT)
sys.argv[1:1] = ["scripts.run_pipeline"]
runpy.run_module("scripts.quietly", run_name="__main__")
"""


def test_an_interrupted_run_stops_the_cloud_that_it_has_started(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with begin_python(
        AT_DEPLOYING, "--port", "0", "--data-dir", str(data_dir), cwd=ROOT
    ) as process:
        said, complained = process.communicate(timeout=120)
    assert (process.returncode, complained) == (INTERRUPTED, ""), said
    assert said.endswith("headrace is stopped\n")
    assert health(data_dir) is None


@pytest.mark.parametrize(
    ("name", "expendable"),
    [("lock", True), ("headrace.log", True), (None, True), ("thesis.tex", False)],
)
def test_only_a_clouds_own_folder_is_emptied(
    tmp_path: Path, name: str | None, expendable: bool
) -> None:
    if name is not None:
        (tmp_path / name).touch()
    assert is_expendable(tmp_path) is expendable


def test_a_folder_of_somebody_elses_is_named_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "thesis.tex"
    file.write_text("years")
    with pytest.raises(StageError, match="is no data directory of headrace's and is not empty"):
        start(tmp_path, 0)
    assert file.read_text() == "years"
    assert not is_expendable(file)
    assert is_expendable(tmp_path / "missing")
