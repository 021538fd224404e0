"""A server behind walls: what it sees and may change, wherever its folders lie."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.walls.walled_server import Plan, build_command, libraries_of, refusal

SHELL = "/bin/sh"
MEMORY = Path("/dev/shm")

pytestmark = pytest.mark.skipif(refusal() != "", reason=f"no walls: {refusal()}")


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder on the disk, and one in the machine's /dev/shm, which the server's own /dev/shm covers."""
    if request.param == "disk":
        yield tmp_path
        return
    if not MEMORY.is_dir():
        pytest.skip("this machine has no /dev/shm")
    with tempfile.TemporaryDirectory(prefix="walls-", dir=MEMORY) as name:
        yield Path(name)


def run(folder: Path, script: str) -> str:
    """Run a shell script as a walled server with `own/` to change and `seen` to read; return what it printed."""
    for name in ("own", "stage", "beside"):
        (folder / name).mkdir()
    (folder / "seen").write_text("seen\n")
    plan = Plan(
        stage=str(folder / "stage"),
        seen=[(path, path) for path in (SHELL, *libraries_of(SHELL), str(folder / "seen"))],
        folders=[str(folder / "own")],
        arguments=[SHELL, "-c", script],
        environment={"HOME": str(folder)},
        stop_signal=signal.SIGTERM,
    )
    with subprocess.Popen(
        build_command(plan), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        assert server.stdout is not None
        return server.stdout.read().decode()


def test_it_changes_its_own_folder_and_reads_what_it_sees(folder: Path) -> None:
    printed = run(folder, "cd $HOME; read line < seen; echo $line > own/file; echo *")
    assert printed == "own seen\n"
    assert (folder / "own" / "file").read_text() == "seen\n"


@pytest.mark.parametrize("path", ["$HOME/new", "$HOME/seen", "/new", "/tmp/new", "/dev/new"])
def test_it_changes_nothing_else(folder: Path, path: str) -> None:
    printed = run(folder, f"(echo x > {path}) && echo changed")
    assert "changed" not in printed
    assert ("Read-only" in printed) or ("Permission denied" in printed)


def test_its_memory_is_its_own_and_writable(folder: Path) -> None:
    theirs = MEMORY / folder.name / "beside"
    printed = run(folder, f"test -e {theirs} && echo seen; echo x > /dev/shm/new && echo written")
    assert printed == "written\n"
    assert not (MEMORY / "new").exists()


def test_no_program_of_its_own_folder_runs(folder: Path) -> None:
    script = (
        "cd $HOME/own; while read -r line; do echo $line; done < ../seen > it; ./it && echo ran"
    )
    assert "ran" not in run(folder, script)
