"""A cluster's runner on a clock that the test moves: idle timeout and metrics."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headrace.core.ports import Metric
from headrace.core.workers import WorkerDone
from headrace.services.emr.cluster_runner import ClusterRunner
from headrace.services.emr.state import Cluster, ClusterState, Step, StepState, Store
from headrace.services.emr.step_runs import Ports
from headrace.spark_submit.job_context import JobContext
from headrace.store.database import Database, Documents
from tests.support.clock import FakeClock
from tests.support.server import wait_until


class Bucket:
    """An object store that is full for the next `full` objects."""

    def __init__(self) -> None:
        self.full = 0
        self.keys: set[str] = set()

    def put(self, bucket: str, key: str, body: Path, *, content_type: str) -> str:
        if self.full:
            self.full -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        self.keys.add(key)
        return ""

    def buckets(self) -> dict[str, Path]:
        return {}


class Sink:
    """Keeps the last value of every metric, and how often metrics came."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.calls = 0

    def put(self, metrics: Sequence[Metric], *, account: str, region: str) -> None:
        self.calls += 1
        for metric in metrics:
            assert metric.namespace == "AWS/ElasticMapReduce"
            assert metric.dimensions == (("JobFlowId", "j-1"),)
            self.values[metric.name] = metric.value


class Lab:
    """One cluster, kept alive, with an idle timeout of 60 seconds."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.clock, self.sink = FakeClock(), Sink()
        self.store = Store(self.clock, database)
        self.folder = folder
        self.store.load()
        self.cluster = Cluster(
            id="j-1", account="000000000000", region="us-east-1", name="c", keep_alive=True,
            request={"Instances": {}, "LogUri": "s3://b/"}, created_ms=self.clock.now_ms(), idle_timeout_s=60,
        )  # fmt: skip
        self.bucket = Bucket()
        ports = Ports(
            clock=self.clock,
            store=self.store,
            context=JobContext(self.bucket, lambda: "", 1),  # type: ignore[arg-type]
            metrics=self.sink,
            folder=folder,
        )
        self.store.add(self.cluster, [])
        self.runner = ClusterRunner(ports, self.cluster)

    def add(self, number: int, *args: str) -> Step:
        step = Step(
            id=f"s-{number}", cluster_id="j-1", number=number, name="s",
            jar="command-runner.jar", args=list(args), created_ms=self.clock.now_ms(),
        )  # fmt: skip
        self.store.add_steps(self.cluster, [step])
        return step

    def ended(self, step: Step) -> None:
        def look() -> bool:
            self.runner.step()
            return not step.active

        wait_until(look)

    def waits(self) -> float:
        """Step until the cluster waits; return for how long."""
        for _ in range(20):
            delay_s = self.runner.step()
            if self.cluster.state is ClusterState.WAITING:
                return delay_s
        raise AssertionError(self.cluster.state)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    database = Database(tmp_path / "state.db", fsync=False)
    lab = Lab(tmp_path, database)
    yield lab
    lab.runner.abandon()
    database.close()


def test_a_cluster_ends_when_it_has_been_idle_for_its_timeout(lab: Lab) -> None:
    assert lab.waits() == 60
    lab.clock.advance(59)
    assert lab.runner.step() == pytest.approx(1)
    lab.clock.advance(1)
    assert lab.runner.step() == 0
    with pytest.raises(WorkerDone):
        lab.runner.step()
    assert lab.cluster.state is ClusterState.TERMINATED
    assert "auto-termination policy" in lab.cluster.reason_message


def test_the_timeout_begins_anew_after_each_step(lab: Lab) -> None:
    lab.waits()
    lab.clock.advance(59)
    lab.ended(lab.add(1, "true"))
    assert lab.waits() == 60
    lab.clock.advance(59)
    lab.runner.step()
    assert lab.cluster.state is ClusterState.WAITING


def test_without_a_policy_a_cluster_waits_for_ever(lab: Lab) -> None:
    lab.cluster.idle_timeout_s = None
    lab.waits()
    lab.clock.advance(7 * 24 * 3600)
    lab.runner.step()
    assert lab.cluster.state is ClusterState.WAITING


def test_metrics_tell_the_applications_and_whether_the_cluster_is_idle(lab: Lab) -> None:
    lab.cluster.idle_timeout_s = None
    lab.waits()
    assert lab.sink.values["IsIdle"] == 1
    hanging, good, bad = lab.add(1, "sleep", "300"), lab.add(2, "true"), lab.add(3, "false")
    lab.runner.step()
    assert {name for name, value in lab.sink.values.items() if value} == {
        "AppsSubmitted",
        "AppsRunning",
        "AppsPending",
    }
    assert (lab.sink.values["AppsRunning"], lab.sink.values["AppsPending"]) == (1, 2)
    hanging.cancel_signal = 9
    for step in (hanging, good, bad):
        lab.ended(step)
    lab.waits()
    assert lab.sink.values == {
        "AppsSubmitted": 3,
        "AppsPending": 0,
        "AppsRunning": 0,
        "AppsCompleted": 1,
        "AppsFailed": 1,
        "AppsKilled": 1,
        "IsIdle": 1,
    }


def test_metrics_come_every_five_minutes_though_nothing_changes(lab: Lab) -> None:
    lab.cluster.idle_timeout_s = None
    assert lab.waits() == pytest.approx(300)
    before = lab.sink.calls
    lab.clock.advance(299)
    lab.runner.step()
    assert lab.sink.calls == before
    lab.clock.advance(1)
    lab.runner.step()
    assert lab.sink.calls == before + 1


def test_a_step_that_ignores_the_signal_is_killed_when_its_grace_is_over(lab: Lab) -> None:
    lab.waits()
    step = lab.add(1, "bash", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    stdout = lab.folder / "j-1" / "s-1" / "stdout"
    wait_until(
        lambda: lab.runner.step() is not None and stdout.exists() and stdout.read_text() != ""
    )
    step.state, step.cancel_signal = StepState.CANCEL_PENDING, 15
    lab.runner.step()
    lab.clock.advance(9.9)
    lab.runner.step()
    assert lab.runner.busy
    lab.clock.advance(0.2)
    lab.ended(step)
    assert step.state is StepState.CANCELLED
    assert not lab.runner.busy


def test_an_end_that_could_not_be_stored_is_stored_later_and_nothing_runs_twice(
    lab: Lab, tmp_path: Path
) -> None:
    lab.waits()
    ran = tmp_path / "ran"
    step = lab.add(1, "bash", "-c", f"echo ran >> {ran}; exit 3")
    lab.bucket.full = 3
    failures = 0

    def look() -> bool:
        nonlocal failures
        try:
            lab.runner.step()
        except OSError:
            failures += 1
        return not step.active

    wait_until(look)
    assert step.state is StepState.FAILED
    assert "exit code 3" in step.failure["Message"]
    assert failures == 3
    assert ran.read_text() == "ran\n"
    assert "j-1/steps/s-1/stderr.gz" in lab.bucket.keys


def test_a_start_that_found_no_room_is_tried_again(lab: Lab) -> None:
    lab.waits()
    step = lab.add(1, "true")
    # A step whose state was stored and whose process was not begun, as when the disk is full between the two.
    step.state, step.started_ms = StepState.RUNNING, lab.clock.now_ms()
    lab.ended(step)
    assert step.state is StepState.COMPLETED


@pytest.mark.parametrize(
    ("args", "environment"),
    [(["echo", "\0"], {}), (["true"], {"A=B": "x"}), (["true"], {"A": "x\0"})],
)
def test_what_no_process_can_be_given_fails_the_step(
    lab: Lab, args: list[str], environment: dict[str, str]
) -> None:
    export = {"Classification": "export", "Properties": environment}
    lab.cluster.request["Configurations"] = [
        {"Classification": "spark-env", "Configurations": [export]}
    ]
    lab.waits()
    step = lab.add(1, *args)
    lab.ended(step)
    assert step.state is StepState.FAILED
    assert "could not be started" in step.failure["Message"]
    lab.waits()


def test_a_step_and_its_cluster_begin_to_run_together_or_not_at_all(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.waits()
    step = lab.add(1, "true")
    put = Documents.put

    def refuse_cluster(documents: Documents, key: str, value: object) -> None:
        if key == "j-1":
            raise OSError(errno.ENOSPC, "No space left on device")
        put(documents, key, value)

    with monkeypatch.context() as patched:
        patched.setattr(Documents, "put", refuse_cluster)
        with pytest.raises(OSError, match="No space left"):
            lab.runner.step()
    assert (step.state, step.started_ms) == (StepState.PENDING, None)
    assert lab.cluster.state is ClusterState.WAITING
    lab.store.load()
    (stored,) = lab.store.steps("j-1")
    assert stored.state is StepState.PENDING
