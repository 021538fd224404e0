"""`headrace history` as a user runs it, with a stand-in for Spark."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from headrace.cli.history import HISTORY_PREFIX
from tests.support.command import INTERRUPTED, begin
from tests.support.history_home import make_event_log, make_history_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_history_home(tmp_path / "spark")


def _start(home: Path, data_dir: Path, *arguments: str) -> subprocess.Popen[str]:
    return begin(
        "history", "--data-dir", str(data_dir), *arguments,
        environment={"HEADRACE_SPARK_HOME": str(home), "TMPDIR": str(home)},
    )  # fmt: skip


def _refusal(home: Path, data_dir: Path, *arguments: str) -> str:
    with _start(home, data_dir, *arguments) as process:
        _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    return said


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 0)]
)  # fmt: skip
def test_prints_where_it_listens_and_ends_when_asked(
    home: Path, data_dir: Path, number: signal.Signals, code: int
) -> None:
    make_event_log(data_dir, "local-1")
    with _start(home, data_dir, "--port", "0") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"listening on (http://127\.0\.0\.1:\d+) \(1 application so far", line)
        assert found is not None, line
        with urllib.request.urlopen(f"{found[1]}/api/v1/applications/local-1", timeout=5) as page:
            assert page.status == 200
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert said == ""
    assert not list(home.glob(f"{HISTORY_PREFIX}*"))
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(found[1], timeout=5)


def test_says_in_a_sentence_what_is_missing(home: Path, data_dir: Path) -> None:
    assert (
        _refusal(home, data_dir)
        == f"Error: There is no data directory {data_dir}; name it with --data-dir.\n"
    )
    data_dir.mkdir()
    (home / "broken").touch()
    assert "it is broken" in _refusal(home, data_dir, "--port", "0")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = _refusal(home, data_dir, "--port", str(taken.getsockname()[1]))
    assert "cannot listen on 127.0.0.1:" in said
    assert said.count("\n") == 1
