"""A supervised job: started, found again, cancelled, and ended with the cloud."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.spark_submit import JobRefused
from headrace.spark_submit.job import Cancellation, JobEnd, SupervisedJob
from headrace.spark_submit.job_context import Command
from tests.support.clock import FakeClock
from tests.support.server import wait_until

LOGS = ("controller", "stdout", "stderr")
# Prints a line for each SIGTERM, and goes on.
STUBBORN = "trap 'echo TERM' TERM; echo ready; while :; do sleep 0.02; done"


class Lab:
    """Jobs in one folder, on a clock that the test moves."""

    def __init__(self, root: Path) -> None:
        self.clock = FakeClock()
        self.folder = root / "job"
        self.jobs: list[SupervisedJob] = []

    def start(self, script: str, *, argument: str = "") -> SupervisedJob:
        arguments = ["bash", "-c", script, "bash", argument]

        def command() -> Command:
            return Command(arguments, dict(os.environ), self.folder)

        job = SupervisedJob.start(self.clock, self.folder, command, kind="job", logs=LOGS)
        self.jobs.append(job)
        return job

    def log(self, name: str) -> str:
        return (self.folder / name).read_text()

    def printed(self, text: str) -> None:
        wait_until(lambda: text in self.log("stdout"))

    def end(self, job: SupervisedJob, cancellation: Cancellation | None = None) -> JobEnd:
        ends: list[JobEnd] = []

        def look() -> bool:
            end = job.watch(cancellation)
            ends.extend([end] if end else [])
            return end is not None

        wait_until(look)
        return ends[0]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    for job in lab.jobs:
        job.abandon()


def test_a_job_ends_with_its_commands_exit_code(lab: Lab) -> None:
    job = lab.start("echo out; exit 3")
    assert lab.end(job) == JobEnd(3, lost=False)
    assert lab.log("stdout") == "out\n"
    assert not job.running
    assert not job.busy


def test_every_look_after_the_end_returns_the_same_and_notes_nothing_more(lab: Lab) -> None:
    job = lab.start("exit 3")
    first = lab.end(job)
    notes = lab.log("controller")
    assert job.watch(None) == job.watch(Cancellation()) == first
    assert lab.log("controller") == notes
    assert notes.count("the command ended with exit code 3") == 1


def test_what_an_attempt_left_that_was_cut_short_is_gone(lab: Lab) -> None:
    lab.folder.mkdir()
    (lab.folder / "exit_code").write_text("9")
    job = lab.start("exit 0")
    assert lab.end(job) == JobEnd(0, lost=False)


def test_what_the_command_left_running_ends_with_it(lab: Lab) -> None:
    job = lab.start("sleep 300 & exit 0")
    assert lab.end(job) == JobEnd(0, lost=False)
    assert not job.busy


@pytest.mark.parametrize("error", [JobRefused("There is no jar."), OSError("No space left")])
def test_a_command_that_cannot_be_made_refuses_the_job(lab: Lab, error: Exception) -> None:
    def command() -> Command:
        raise error

    with pytest.raises(JobRefused, match=str(error)):
        SupervisedJob.start(lab.clock, lab.folder, command, kind="job", logs=LOGS)
    assert f"the command could not be started: {error}" in lab.log("controller")
    assert SupervisedJob.find(lab.clock, lab.folder) is None


def test_what_no_process_can_be_given_refuses_the_job(lab: Lab) -> None:
    with pytest.raises(JobRefused, match=r"^The job could not be started: embedded null byte\.$"):
        lab.start("exit 0", argument="\0")


def test_a_running_job_is_found_again(lab: Lab) -> None:
    lab.start(f"until [ -e {lab.folder}/go ]; do sleep 0.02; done; exit 5")
    wait_until((lab.folder / "pid").exists)
    found = SupervisedJob.find(lab.clock, lab.folder)
    assert found is not None
    assert found.watch(None) is None
    (lab.folder / "go").touch()
    assert lab.end(found) == JobEnd(5, lost=False)


def test_a_job_that_was_killed_is_lost_to_the_cloud_that_finds_it(lab: Lab) -> None:
    job = lab.start("echo ready; sleep 300")
    lab.printed("ready")
    os.kill(int(lab.log("pid")), signal.SIGKILL)
    assert lab.end(job) == JobEnd(None, lost=False)
    found = SupervisedJob.find(lab.clock, lab.folder)
    assert found is not None
    assert lab.end(found) == JobEnd(None, lost=True)


def test_a_cancelled_job_gets_the_signal_once_and_is_killed_after_its_grace(lab: Lab) -> None:
    job, asked = lab.start(STUBBORN), Cancellation(grace_s=5)
    lab.printed("ready")
    assert job.watch(asked) is None
    lab.printed("TERM")
    lab.clock.advance(4.9)
    assert job.watch(asked) is None
    assert job.busy
    assert lab.log("stdout").count("TERM") == 1
    assert "cancelled: SIGTERM" in lab.log("controller")
    lab.clock.advance(0.2)
    assert lab.end(job, asked).exit_code != 0
    assert not job.busy


def test_a_repeated_signal_comes_twice_and_not_more(lab: Lab) -> None:
    job, asked = lab.start(STUBBORN), Cancellation(repeat=True)
    lab.printed("ready")
    for count in (1, 2):
        assert job.watch(asked) is None
        wait_until(lambda count=count: lab.log("stdout").count("TERM") == count)
    assert job.watch(asked) is None
    assert job.watch(asked) is None
    assert lab.log("stdout").count("TERM") == 2


def test_sigkill_has_no_grace(lab: Lab) -> None:
    job = lab.start(STUBBORN)
    lab.printed("ready")
    assert lab.end(job, Cancellation(signal=signal.SIGKILL)).exit_code != 0


def test_a_cancelled_job_ends_when_all_of_its_processes_have(lab: Lab) -> None:
    job = lab.start(f"({STUBBORN}) & wait")
    lab.printed("ready")
    os.kill(int(lab.log("pid")), signal.SIGKILL)
    wait_until(lambda: not job.running)
    assert job.watch(Cancellation()) is None
    lab.clock.advance(11)
    assert lab.end(job, Cancellation()) == JobEnd(None, lost=False)


def test_with_the_cloud_a_job_is_asked_to_end_and_then_killed(lab: Lab) -> None:
    job = lab.start(STUBBORN)
    lab.printed("ready")
    job.shut_down()
    lab.printed("TERM")
    assert job.busy
    assert job.abandon() is None
    assert not job.busy


def test_a_job_that_ended_before_the_cloud_did_keeps_its_exit_code(lab: Lab) -> None:
    job = lab.start("exit 0")
    wait_until(lambda: not job.running)
    assert job.abandon() == 0
