"""The processes of queries: one is used again, and none stays for long, or when it is killed, or with its cloud."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.services.athena import processes as module
from headrace.services.athena.processes import Processes, end, kill
from tests.support.fresh_python import run_after
from tests.support.server import wait_until

pytest.importorskip("duckdb")


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path)
    yield processes
    processes.close()


def ask(process: subprocess.Popen[str], folder: Path, sql: str) -> dict[str, Any]:
    """Run a query of no table in a folder of its own; return how it ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    folder.mkdir()
    (folder / "errors").touch()
    bounds = {"cpu_s": 60, "memory_bytes": 2**30, "disk_bytes": 2**30, "now_ms": 0}
    request = {"query": sql, "database": "db", "parameters": [], "folder": str(folder)} | bounds
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    return json.loads(line) if line else {}


def test_a_process_runs_one_query_after_the_other(processes: Processes, tmp_path: Path):
    first = processes.take(tmp_path / "log")
    # The second finds nothing of the first, not even its bounds, and has what the first has imported.
    for name, sql in {"a": "SELECT 1 AS x", "b": "SELECT 2 AS y", "c": "SELEC"}.items():
        process = processes.take(tmp_path / "log") if name != "a" else first
        answer = ask(process, tmp_path / name, sql)
        processes.give(process)
        assert process is first
        if name == "c":
            assert answer["refused"]
        else:
            assert answer["done"]["rows"] == 1
            assert (tmp_path / name / "result").read_text().splitlines()[
                0
            ] == f'"{"xy"[name == "b"]}"'
    assert (tmp_path / "log").read_text() == ""


def test_a_copy_that_dies_ends_its_process_and_the_next_query_has_another(
    processes: Processes, tmp_path: Path
):
    process = processes.take(tmp_path / "log")
    # Its folder has no file for its errors.
    assert process.stdin is not None
    process.stdin.write(json.dumps({"folder": str(tmp_path)}) + "\n")
    process.stdin.flush()
    assert process.wait(60) == 0
    assert "FileNotFoundError" in (tmp_path / "log").read_text()
    processes.give(process)
    other = processes.take(tmp_path / "log")
    assert other is not process
    assert ask(other, tmp_path / "a", "SELECT 1")["done"]["rows"] == 1
    end(other)


def test_a_process_without_a_query_is_kept_for_a_while(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "KEPT_S", 0.01)
    process = processes.take(tmp_path / "log")
    processes.give(process)
    wait_until(lambda: process.poll() is not None, what="its end")
    other = processes.take(tmp_path / "log")
    assert other is not process
    end(other)


def test_one_is_kept_and_none_when_the_cloud_stops(processes: Processes, tmp_path: Path):
    one, other, late = (processes.take(tmp_path / "log") for _ in range(3))
    processes.give(one)
    processes.give(other)
    assert (one.poll(), other.poll()) == (None, -9)
    processes.close()
    assert one.poll() == -9
    processes.give(late)
    assert late.poll() == -9


def test_a_killed_process_ends_with_its_copy(processes: Processes, tmp_path: Path):
    process = processes.take(tmp_path / "log")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: children.read_text().strip(), what="a copy")
    kill(process)
    assert process.stdout is not None
    # Its end of the pipe is the copy's, too.
    assert process.stdout.read() == ""
    end(process)


def test_what_a_process_imports_for_its_copies_starts_no_thread():
    program = (
        "import importlib, os\n"
        f"os.environ.update({module.WITHOUT_THREADS!r})\n"
        "from headrace.services.athena.child import HEAVY\n"
        "for name in HEAVY: importlib.import_module(name)\n"
        "print(len(os.listdir('/proc/self/task')))\n"
    )
    assert run_after("", program) == "1\n"


def test_a_process_ends_with_its_input_as_when_the_cloud_is_killed(
    processes: Processes, tmp_path: Path
):
    process = processes.take(tmp_path / "log")
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0
    assert (tmp_path / "log").read_text() == ""
    end(process)
