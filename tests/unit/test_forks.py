"""`--processes`: what happens in the forked processes is told as if it had happened in one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)
ROOT = Path(__file__).parents[2]
CONFTEST = """
import os, pathlib, pytest
from tests.support import forks
def pytest_addoption(parser):
    forks.add_option(parser)
def pytest_configure(config):
    config.pluginmanager.register(forks.Forks(config.option.processes))
def note(text):
    with open("notes", "a") as notes:
        notes.write(text + "\\n")
@pytest.fixture(scope="session")
def shared():
    note(f"begin {os.getpid()}")
    yield
    note(f"end {os.getpid()}")
@pytest.fixture(scope="package")
def of_folder(shared):
    note("begin folder")
    yield
    note("end folder")
"""
GOOD = """
import os, tempfile
def test_it(shared, of_folder, tmp_path):
    print("unseen")
    with open("notes", "a") as notes:
        notes.write(f"ran {os.getpid()} {tmp_path} {tempfile.gettempdir()}\\n")
"""
BAD = """
import os, signal, warnings, pytest
def test_fails():
    print("what it printed")
    assert [1] == [2]
def test_warns():
    warnings.warn("look here")
def test_dies():
    with open("notes", "a") as notes:
        notes.write(f"dies {os.getpid()}\\n")
    os.kill(os.getpid(), signal.SIGKILL)
def test_lives_on():
    pass
def test_is_skipped():
    pytest.skip("not today")
@pytest.fixture
def broken():
    yield
    raise RuntimeError("at its end")
def test_ends_badly(broken):
    pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_bad=BAD)
    for number in range(6):
        folder = pytester.mkpydir(f"folder{number % 2}{number}") if number < 2 else None
        (folder or pytester.path).joinpath(f"test_good_{number}.py").write_text(GOOD)
    return pytester


def test_every_outcome_of_every_process_is_told(suite: pytest.Pytester) -> None:
    run = suite.runpytest_subprocess("-p", "no:headrace.testing.plugin", "--processes", "2", "-rs")
    run.assert_outcomes(passed=9, failed=2, errors=1, skipped=1, warnings=1)
    run.stdout.fnmatch_lines_random(
        [
            "what it printed",
            "E*At index 0 diff: 1 != 2",
            "*ended with -9 while running test_bad.py::test_dies",
            "*RuntimeError: at its end",
            "*look here",
            "SKIPPED*not today",
        ]
    )
    run.stdout.no_fnmatch_line("*unseen*")
    notes = suite.path.joinpath("notes").read_text().splitlines()
    ran = [note.split()[1:] for note in notes if note.startswith("ran")]
    assert len(ran) == 6
    assert len({folder for _, folder, _ in ran}) == 6
    # Each process makes and ends what it shares, and has a folder for temporary files.
    processes = {process for process, _, _ in ran}
    assert len({folder for _, _, folder in ran}) == len(processes)
    killed = {note.split()[1] for note in notes if note.startswith("dies")}
    for word, those in (("begin", processes), ("end", processes - killed)):
        of_session = [n for n in notes if n.startswith(word) and n != f"{word} folder"]
        assert sorted(of_session) == sorted(f"{word} {process}" for process in those)


def test_the_first_failure_may_end_it(suite: pytest.Pytester) -> None:
    run = suite.runpytest_subprocess(
        "-p", "no:headrace.testing.plugin", "--processes", "1", "-x", "test_bad.py"
    )
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["*stopping after 1 failures*"])
