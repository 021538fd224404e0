"""The processes of `make test` run each test once, and report what each would report by itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.schedule import TOGETHER, groups_of

CONFTEST = """
import pytest
from tests.support import workers

def pytest_runtestloop(session):
    workers.run_tests(session, 2)
    return True

@pytest.fixture(scope="session", autouse=True)
def shared(request):
    yield
    with open("ended", "a") as file:
        file.write("x")
"""
TESTS = """
import os, pytest, tempfile
def test_passes(tmp_path): (tmp_path / "file").write_text("text")
def test_fails(): print("what it says"); assert 1 == 2
def test_dies(): os._exit(7)
def test_comes_after_the_one_that_died(): assert os.environ["TMPDIR"] == tempfile.gettempdir()
@pytest.mark.skip
def test_is_skipped(): pass
def test_is_killed(): os.kill(os.getpid(), 9)
"""


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_one.py").write_text(TESTS)
    (folder / "test_two.py").write_text("def test_is_elsewhere(): pass\n")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:headrace.testing.plugin", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_each_test_runs_once_and_one_that_ends_its_process_has_failed(tmp_path: Path) -> None:
    code, said = run_pytest(tmp_path)
    assert code == 1, said
    assert re.search(r"3 failed, 3 passed, 1 skipped", said), said
    assert "what it says" in said
    assert "test_dies - its process ended while it ran, status 7" in said
    assert "test_is_killed - its process ended while it ran, status -9" in said
    # The process of test_two.py, and the third of test_one.py's, which had nothing left to run.
    assert (tmp_path / "ended").read_text() == "x"


def test_a_run_can_end_with_the_first_failure(tmp_path: Path) -> None:
    code, said = run_pytest(tmp_path, "-x", "test_one.py")
    assert code == 1, said
    assert "1 failed, 1 passed" in said


def test_groups_keep_files_together_and_the_longest_go_first() -> None:
    ids = [
        "tests/unit/test_a.py::test_1",
        "tests/spark_jobs/test_new.py::test_2",
        f"tests/{TOGETHER[0][1]}::test_3",
        "tests/unit/test_b.py::test_4",
        "tests/spark_jobs/test_step.py::test_5",
        f"tests/{TOGETHER[0][0]}::test_6",
        "tests/unit/test_a.py::test_7",
        "tests/spark_jobs/test_step.py::test_8",
    ]
    assert groups_of(ids) == [[5, 2, 1], [4], [7], [0, 6], [3]]
