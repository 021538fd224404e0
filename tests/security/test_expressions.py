"""No expression takes the machine: memory stays bounded, others are answered, and the cloud ends when it is asked.

The bombs of expression_bombs.py are sent to a real cloud. By hand: `python -m tests.security.test_expressions` prints
how long each took, and the memory.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.core import evaluation
from headrace.core.evaluation import budget
from tests.security.expression_bombs import (
    BOMBS,
    Bomb,
    Lab,
    forget_peak,
    memory_mib,
    refused,
    template,
)
from tests.security.random_bombs import random_bombs
from tests.support.server import ServerProcess, wait_until

# 250 MiB are the cloud with moto's services; each of two large evaluations may have 128 and their results.
MOST_MEMORY_MIB = 900
# With three dozen at once (nightly): beside those two, 192 MB of histories, and their copies while they are written.
MOST_MEMORY_UNDER_FIRE_MIB = 1500


def be_impatient() -> None:
    """Give up an evaluation after a tenth of the time; the cloud's process calls it before it starts."""
    budget.MOST_CPU_S = 0.3
    most = evaluation.Pool.ask.__kwdefaults__
    assert most is not None
    most["most_cpu_s"] = 0.5


def before(nightly: bool) -> str:
    """Return what a cloud's process calls before it starts."""
    return "" if nightly else f"{__name__}:{be_impatient.__name__}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, nightly: bool) -> Iterator[ServerProcess]:
    """Yield a cloud; by day one for which what only the clock stops takes a tenth of its time; at night, all of it."""
    folder = tmp_path_factory.mktemp("expressions")
    with ServerProcess(folder / "data", before=before(nightly)) as running:
        yield running


@pytest.fixture(scope="module")
def lab(server: ServerProcess) -> Lab:
    made = Lab(server.endpoint_url)
    made.set_up()
    return made


def honest(lab: Lab) -> None:
    """Evaluate one expression of each engine, and read a table."""
    assert json.loads(lab.state({"Output": "{% 1 + 1 %}"}, None, "JSONata")) == 2
    assert json.loads(lab.state({"InputPath": "$.a[?(@ > 1)]"}, {"a": [1, 2]})) == [2]
    assert lab.http(lab.method("$input.json('$')"), b"{}").startswith("200")
    assert lab.client("dynamodb").get_item(TableName="t", Key={"k": {"S": "x"}})["Item"]


def gone_off(server: ServerProcess, lab: Lab, bomb: Bomb) -> str:
    """Let a bomb go off, with honest requests beside it; return what it was answered."""
    said: list[str] = []
    forget_peak(server.pid)

    def run() -> None:
        said.append(refused(lambda: bomb(lab)))

    thread = threading.Thread(target=run)
    thread.start()
    honest(lab)
    thread.join()
    return said[0]


# Each burns its five seconds of a processor as `endless_jsonata` does.
_AS_ENDLESS = ("a_pattern_in_jsonata", "jsonata_of_lists_of_lists")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in _AS_ENDLESS else []) for name in BOMBS],
)
def test_a_bomb_is_answered_beside_honest_requests(server: ServerProcess, lab: Lab, name: str):
    bomb, answer = BOMBS[name]
    said = gone_off(server, lab, bomb)
    assert answer in said
    assert "InternalFailure" not in said
    assert memory_mib(server.pid) < MOST_MEMORY_MIB


def test_a_template_alone_sets_no_bomb_off(server: ServerProcess, lab: Lab):
    forget_peak(server.pid)
    soon = f"{datetime.now(UTC) + timedelta(seconds=4):%Y-%m-%dT%H:%M:%S}"
    formation, states = lab.client("cloudformation"), lab.client("stepfunctions")
    formation.create_stack(StackName="bombs", TemplateBody=json.dumps(template(soon)))
    formation.get_waiter("stack_create_complete").wait(
        StackName="bombs", WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    machines = [
        each["stateMachineArn"]
        for each in states.list_state_machines()["stateMachines"]
        if each["name"].startswith("by-template-")
    ]
    assert len(machines) == 3

    def runs() -> list[str]:
        of_machines = [
            states.list_executions(stateMachineArn=arn)["executions"] for arn in machines
        ]
        return [run["executionArn"] for of in of_machines for run in of]

    wait_until(lambda: len(runs()) == 3, within_s=60, what="the schedules")
    honest(lab)
    errors = sorted(lab.ended(run).partition(":")[0] for run in runs())
    assert errors == [
        "States.IntrinsicFailure",
        "States.IntrinsicFailure",
        "States.QueryEvaluationError",
    ]
    assert memory_mib(server.pid) < MOST_MEMORY_MIB


@pytest.mark.parametrize(
    ("seed", "count"), [(11, 6), pytest.param(29, 600, marks=pytest.mark.slow)]
)
def test_random_bombs_are_answered(server: ServerProcess, lab: Lab, seed: int, count: int):
    for bomb in random_bombs(seed, count):
        said = gone_off(server, lab, bomb)
        assert "InternalFailure" not in said
        assert memory_mib(server.pid) < MOST_MEMORY_MIB


MANY = (
    "endless_jsonata", "jsonata_that_swells", "descents_of_descents", "a_list_that_grows", "entries_of_entries",
    "lists_compared", "base64_of_base64", "array_range_by_test_state", "a_loop_with_large_data",
)  # fmt: skip


def test_a_cloud_under_fire_ends_when_it_is_asked(tmp_path: Path, nightly: bool):
    with ServerProcess(tmp_path / "data", before=before(nightly)) as server:
        lab = Lab(server.endpoint_url)
        lab.set_up()
        began_s = cpu_s(server.pid)
        threads = [
            threading.Thread(target=_quietly, args=(lab, BOMBS[name][0]), daemon=True)
            for name in (MANY if nightly else MANY[::2])
            for _ in range(4 if nightly else 1)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: cpu_s(server.pid) - began_s > 0.5, what="the bombs")
        honest(lab)
        assert memory_mib(server.pid) < MOST_MEMORY_UNDER_FIRE_MIB
        # It raises when the cloud does not end in twenty seconds.
        server.stop()


def _quietly(lab: Lab, bomb: Bomb) -> None:
    """Let a bomb go off; the cloud may end before it answers."""
    try:
        bomb(lab)
    except Exception as error:  # noqa: BLE001 - whatever a client says of a connection that breaks
        sys.stderr.write(f"{error}\n")


def cpu_s(pid: int) -> float:
    """Return the processor time of a process, without its children's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main(endpoint_url: str, pid: int) -> None:
    """Let each bomb go off on a cloud that runs, and print its figures."""
    lab = Lab(endpoint_url)
    lab.set_up()
    for name, (bomb, _) in BOMBS.items():
        began_s, cpu = time.monotonic(), cpu_s(pid)
        said = refused(lambda bomb=bomb: bomb(lab))
        took = f"{time.monotonic() - began_s:6.2f} s, {cpu_s(pid) - cpu:5.2f} s of the cloud's processor time"
        sys.stdout.write(f"{name:32} {took}, {memory_mib(pid):4} MiB: {said[:90]}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
