"""Job runs after a kill and after too long; applications that have nothing to do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ports import ObjectStore
from headrace.services.emr_serverless.backend import IdleWatch
from headrace.services.emr_serverless.runner import JobRunner, Ports
from headrace.services.emr_serverless.state import (
    Application,
    ApplicationState,
    Attempt,
    JobRun,
    JobState,
    Store,
)
from headrace.spark_submit.job_context import JobContext
from headrace.store.database import Database
from tests.support.clock import FakeClock
from tests.support.server import wait_until
from tests.support.spark_home import make_spark_home


class NoBuckets:
    """An object store without buckets; the job is a local file."""

    def buckets(self) -> dict[str, Path]:
        return {}


@pytest.fixture
def store(tmp_path: Path) -> Any:
    database = Database(tmp_path / "state.db")
    yield Store(database)
    database.close()


def application(store: Store, clock: FakeClock, **request: Any) -> Application:
    made = Application(
        id="00a", account="000000000000", region="us-east-1", request={"type": "Spark", **request},
        client_token="t", created_ms=clock.now_ms(), updated_ms=clock.now_ms(), fingerprint="",
        state=ApplicationState.STARTED, started_ms=clock.now_ms(),
    )  # fmt: skip
    store.save_application(made)
    return made


@pytest.mark.parametrize(
    ("request_", "most"),
    [
        ({}, None),
        ({"schedulerConfiguration": {"maxConcurrentRuns": 2}}, 2),
        ({"schedulerConfiguration": {"queueTimeoutMinutes": 20}}, 15),
    ],
)
def test_a_scheduler_lets_fifteen_runs_at_a_time_by_default(
    store: Store, request_: dict[str, Any], most: int | None
) -> None:
    assert application(store, FakeClock(), **request_).most_runs == most


def job_run(store: Store, clock: FakeClock, **request: Any) -> JobRun:
    now_ms = clock.now_ms()
    run = JobRun(
        id="00r", application_id="00a", account="000000000000", region="us-east-1", number=1,
        request=request, fingerprint="", release_label="emr-7.9.0", created_ms=now_ms,
        updated_ms=now_ms, attempts=[Attempt(number=1, created_ms=now_ms, updated_ms=now_ms)],
    )  # fmt: skip
    store.save_run(run)
    return run


def runner_of(
    store: Store, clock: FakeClock, folder: Path, made: Application, run: JobRun
) -> JobRunner:
    objects: ObjectStore = NoBuckets()  # type: ignore[assignment]
    context = JobContext(objects, lambda: "http://127.0.0.1:1", 2)
    return JobRunner(Ports(clock, store, context, folder, lambda: None), made, run)


def test_a_run_that_a_kill_caught_before_its_process_began_is_started(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(make_spark_home(tmp_path / "spark")))
    clock = FakeClock()
    job = tmp_path / "job.sh"
    job.write_text("echo ran")
    made = application(store, clock)
    run = job_run(store, clock, jobDriver={"sparkSubmit": {"entryPoint": str(job)}})
    run.state = JobState.SCHEDULED
    runner = runner_of(store, clock, tmp_path, made, run)
    runner.recover()
    wait_until(lambda: runner.step() and run.ended)
    assert run.state is JobState.SUCCESS
    assert (runner.folder / "stdout").read_text() == "ran\n"
    assert len(run.attempts) == 1


def test_a_run_whose_cancelling_a_kill_caught_is_cancelled(store: Store, tmp_path: Path) -> None:
    clock = FakeClock()
    made, run = application(store, clock), job_run(store, clock)
    run.state, run.cancelled = JobState.CANCELLING, True
    runner = runner_of(store, clock, tmp_path, made, run)
    runner.recover()
    runner.step()
    assert run.state is JobState.CANCELLED


def test_a_home_of_spark_without_spark_submit_is_named(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(tmp_path / "nowhere"))
    clock = FakeClock()
    driver = {"sparkSubmit": {"entryPoint": "/job.py"}}
    made, run = application(store, clock), job_run(store, clock, jobDriver=driver)
    runner_of(store, clock, tmp_path, made, run).step()
    assert run.state is JobState.FAILED
    assert "has no bin/spark-submit" in run.details


def test_a_job_that_takes_too_long_is_cancelled(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(make_spark_home(tmp_path / "spark")))
    clock = FakeClock()
    job = tmp_path / "job.sh"
    job.write_text(f"touch {tmp_path}/begun; sleep 300")
    made = application(store, clock)
    driver = {"sparkSubmit": {"entryPoint": str(job)}}
    run = job_run(store, clock, jobDriver=driver, executionTimeoutMinutes=5)
    runner = runner_of(store, clock, tmp_path, made, run)
    runner.step()
    assert run.state is JobState.RUNNING
    wait_until((tmp_path / "begun").exists)
    clock.advance(299)
    runner.step()
    assert run.state is JobState.RUNNING
    clock.advance(2)
    runner.step()
    clock.advance(11)  # the grace: then whatever is left is killed
    wait_until(lambda: runner.step() and run.ended)
    assert run.state is JobState.CANCELLED
    assert run.details == "Job run timed out after 5 minutes."


def test_an_idle_application_stops_itself(store: Store) -> None:
    clock = FakeClock()
    made = application(store, clock, autoStopConfiguration={"idleTimeoutMinutes": 2})
    watch = IdleWatch(clock, store)
    assert watch.step() == 120.0
    run = job_run(store, clock)
    clock.advance(3600)
    assert watch.step() == math.inf
    run.state, run.ended_ms = JobState.SUCCESS, clock.now_ms()
    assert watch.step() == 120.0
    clock.advance(121)
    watch.step()
    assert made.state is ApplicationState.STOPPED
    assert made.details == "The application was stopped after 2 minutes without a job."


def test_an_application_that_may_not_stop_itself_goes_on(store: Store) -> None:
    clock = FakeClock()
    made = application(store, clock, autoStopConfiguration={"enabled": False})
    clock.advance(1e6)
    assert IdleWatch(clock, store).step() == math.inf
    assert made.state is ApplicationState.STARTED


def test_everything_is_there_again_after_a_restart(store: Store, tmp_path: Path) -> None:
    clock = FakeClock()
    made, run = application(store, clock), job_run(store, clock, mode="STREAMING")
    database = Database(tmp_path / "state.db")
    again = Store(database)
    again.load()
    assert again.application(made.id) == made
    assert again.run(run.id) == run
    database.close()


class FullBucket:
    """An object store that takes nothing until there is room."""

    def __init__(self) -> None:
        self.full = True

    def buckets(self) -> dict[str, Path]:
        return {}

    def put(self, bucket: str, key: str, body: Path, *, content_type: str) -> str:
        if self.full:
            raise OSError("No space left on device")
        return ""


def test_an_end_that_could_not_be_stored_is_stored_later_and_the_job_is_not_run_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(make_spark_home(tmp_path / "spark")))
    clock, ran, job = FakeClock(), tmp_path / "ran", tmp_path / "job.sh"
    job.write_text(f"echo ran >> {ran}")
    logs = {"s3MonitoringConfiguration": {"logUri": "s3://logs/"}}
    made = application(store, clock)
    run = job_run(
        store,
        clock,
        jobDriver={"sparkSubmit": {"entryPoint": str(job)}},
        configurationOverrides={"monitoringConfiguration": logs},
    )
    bucket = FullBucket()
    context = JobContext(bucket, lambda: "http://127.0.0.1:1", 2)  # type: ignore[arg-type]
    runner = JobRunner(Ports(clock, store, context, tmp_path, lambda: None), made, run)
    runner.step()
    wait_until((runner.folder / "exit_code").exists)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            runner.step()
    assert run.state is JobState.RUNNING
    bucket.full = False
    runner.step()
    assert run.state is JobState.SUCCESS
    assert ran.read_text() == "ran\n"
