"""Whose a spool's folder is: never swept while its process lives, always once it is dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.spark.held_folder import HeldFolder, sweep
from tests.support.server import wait_until

PREFIX = "held-"

# Makes a folder with something in it, says where it is, and does what its argument says.
OWNER = """
import signal, sys
from pathlib import Path
from headrace.spark.held_folder import HeldFolder
folder = HeldFolder.make("held-", Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    (folder.path / str(number)).touch()
folder.close_at_sigterm()
print(folder.path, flush=True)
signal.pause()
"""

# Makes and closes folders, and fails if one that it holds goes.
BUSY = """
import sys
from pathlib import Path
from headrace.spark.held_folder import HeldFolder
for _ in range(100):
    with HeldFolder.make("held-", Path(sys.argv[1])) as folder:
        (folder.path / "mine").touch()
        (folder.path / "mine").unlink()
        assert folder.path.is_dir()
"""


@contextmanager
def owner(parent: Path, files: int = 3) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a process that holds a folder with so many files in it."""
    command = [sys.executable, "-c", OWNER, str(parent), str(files)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_a_folder_goes_with_what_is_in_it_when_it_is_closed(tmp_path: Path) -> None:
    with HeldFolder.make(PREFIX, tmp_path) as folder:
        (folder.path / "shard").mkdir()
        (folder.path / "shard" / "0.json").write_bytes(b"{}")
        folder.close()
        assert list(tmp_path.iterdir()) == []
    folder.close()


def test_a_folder_in_use_is_not_swept_and_one_of_a_killed_process_is(tmp_path: Path) -> None:
    with owner(tmp_path) as (process, path):
        with HeldFolder.make(PREFIX, tmp_path) as folder:
            assert sweep(PREFIX, tmp_path) == []
            assert {path, folder.path} == set(tmp_path.iterdir())
        process.kill()
        process.wait()
        assert list(path.iterdir())
        with HeldFolder.make(PREFIX, tmp_path) as folder:
            assert list(tmp_path.iterdir()) == [folder.path]


def test_sigterm_removes_the_folder_and_ends_the_process_as_it_would_have(tmp_path: Path) -> None:
    with owner(tmp_path, files=2000) as (process, path):
        assert path.is_dir()
        # As Spark does: the second must not cut the removal short.
        process.terminate()
        wait_until(lambda: not path.exists())
        process.terminate()
        assert process.wait(20) == -signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_removal_that_was_cut_short_is_finished_by_the_next_sweep(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}abc.gone"
    (left / "shard").mkdir(parents=True)
    assert sweep(PREFIX, tmp_path) == [left]
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_folder_of_ours_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}file").touch()
    assert sweep(PREFIX, tmp_path) == []
    assert (elsewhere / "file").exists()
    assert (tmp_path / f"{PREFIX}file").exists()


def test_another_users_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{PREFIX}theirs").mkdir()
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert sweep(PREFIX, tmp_path) == []


def test_a_file_system_without_locks_gives_folders_that_no_sweep_touches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with HeldFolder.make(PREFIX, tmp_path) as folder:
        assert sweep(PREFIX, tmp_path) == []
        assert folder.path.is_dir()


def test_processes_that_make_and_sweep_side_by_side_leave_each_others_folders(
    tmp_path: Path,
) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", BUSY, str(tmp_path)], stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in started:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said.decode()
    assert list(tmp_path.iterdir()) == []
