"""Processes of steps: found again, and ended with all they started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.spark_submit.job import JobProcess
from tests.support.server import wait_until


def start(folder: Path, script: str) -> JobProcess:
    return JobProcess.start(
        folder, ["bash", "-c", script], environment=dict(os.environ), cwd=folder
    )


@pytest.fixture
def started(tmp_path: Path) -> Iterator[JobProcess]:
    process = start(
        tmp_path, "trap '' TERM; (setsid sleep 300 &) ; sleep 300 & echo ready; wait; sleep 300"
    )
    wait_until(
        lambda: (
            "ready" in (tmp_path / "stdout").read_text()
            if (tmp_path / "stdout").exists()
            else False
        )
    )
    yield process
    process.kill()


def test_output_and_exit_code_are_left_in_the_folder(tmp_path: Path) -> None:
    process = start(tmp_path, "echo out; echo err >&2; exit 7")
    wait_until(lambda: not process.alive)
    assert process.exit_code == 7
    assert (tmp_path / "stdout").read_text() == "out\n"
    assert (tmp_path / "stderr").read_text() == "err\n"


def test_an_earlier_clouds_process_is_found_and_its_exit_code_too(tmp_path: Path) -> None:
    process = start(tmp_path, f"until [ -e {tmp_path}/go ]; do sleep 0.02; done; exit 5")
    wait_until((tmp_path / "pid").exists)
    found = JobProcess.find(tmp_path)
    assert found is not None
    assert found.adopted
    assert found.alive
    assert found.exit_code is None
    (tmp_path / "go").touch()
    wait_until(lambda: found.exit_code == 5)
    process.kill()
    assert not found.alive


def test_a_process_that_got_a_dead_ones_number_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(str(os.getpid()))
    found = JobProcess.find(tmp_path)
    assert found is not None
    assert not found.alive


def test_a_folder_in_which_nothing_began_has_no_process(tmp_path: Path) -> None:
    assert JobProcess.find(tmp_path) is None
    (tmp_path / "pid").write_text("nonsense")
    assert JobProcess.find(tmp_path) is None


@pytest.mark.parametrize(
    "daemon",
    [
        "setsid sleep 300 & ",
        # A daemon as textbooks have it: its parent is gone, too.
        "(setsid sh -c 'sleep 300 & sleep 300 & wait' &)",
    ],
)
def test_a_daemon_is_ended_with_the_command_that_left_it(tmp_path: Path, daemon: str) -> None:
    process = start(tmp_path, f"{daemon} \n exit 0")
    wait_until(lambda: process.exit_code == 0)
    wait_until(lambda: not process.alive)
    assert wait_until(process.members)
    process.kill()
    wait_until(lambda: not process.members())


def test_a_child_that_clears_its_environment_is_found_while_its_parent_lives(
    tmp_path: Path,
) -> None:
    process = start(tmp_path, "env -i setsid sleep 300 & echo $!; wait")
    stdout = tmp_path / "stdout"
    wait_until(lambda: stdout.exists() and stdout.read_text())
    pid = int(stdout.read_text())
    wait_until(lambda: Path(f"/proc/{pid}/environ").read_bytes() == b"")
    assert pid in process.members()
    process.kill()
    wait_until(lambda: not process.members())


def test_another_jobs_processes_are_left_alone(tmp_path: Path) -> None:
    # One folder's name begins as the other's does.
    first, second = tmp_path / "s-1", tmp_path / "s-10"
    first.mkdir()
    second.mkdir()
    one, ten = start(first, "exec sleep 300"), start(second, "exec sleep 300")
    wait_until(one.members)
    wait_until(ten.members)
    one.kill()
    assert ten.alive
    assert ten.members()
    ten.kill()


def test_what_an_earlier_cloud_started_in_the_folder_ends_when_the_job_starts_anew(
    tmp_path: Path,
) -> None:
    early = start(tmp_path, "exec sleep 300")
    wait_until((tmp_path / "pid").exists)
    late = start(tmp_path, "exec sleep 300")
    wait_until(lambda: not early.alive)
    assert late.alive
    late.kill()


def test_children_that_outlive_the_command_are_ended_with_it(started: JobProcess) -> None:
    assert len(started.members()) >= 3
    started.signal(signal.SIGKILL)
    wait_until(lambda: not started.members())
    # The wrapper may have seen its command killed, before it was killed itself.
    assert started.exit_code in (None, 128 + signal.SIGKILL)


def test_what_is_being_started_while_a_signal_is_sent_is_sent_it_too(tmp_path: Path) -> None:
    # Whether the wrapper has started the command when the signal comes is a matter of luck: so, often.
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = start(folder, "exec sleep 300")
        process.signal(signal.SIGTERM)
        wait_until(lambda process=process: not process.members(), within_s=5)
        process.kill()
