"""Step Functions' Map Runs: how far the child executions of a distributed Map are, and how many may run at a time.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-examine-map-run.html, and the API's pages of
ListMapRuns, DescribeMapRun and UpdateMapRun. The members are those that AWS was recorded to give (LocalStack's
test_sfn_api_map_run.snapshot.json). A Map Run is stored with its execution when that ends.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.moto.current_cloud import CURRENT
from headrace.services.stepfunctions import answers

RUNNING, PENDING = "running", "pending"
ENDS = ("succeeded", "failed", "timedOut", "aborted")
# A change of the limit, or the end of the execution, is seen after at most so long.
_LOOKS_EVERY_S = 1.0


class Progress:
    """The child executions of one Map Run, counted also by the items that they have. Thread-safe."""

    def __init__(self, limit: int) -> None:
        """`limit` is how many child executions may run at a time; 0 sets no limit."""
        self.limit = limit
        self.launch: Callable[[int], None] = lambda _: None
        self._changed = threading.Condition()
        self._sizes: list[int] = []
        self._executions, self._items = Counter[str](), Counter[str]()

    def plan(self, sizes: list[int]) -> None:
        """Note how many items each child execution has."""
        with self._changed:
            self._sizes = sizes
            self._executions[PENDING], self._items[PENDING] = len(sizes), sum(sizes)

    def begin(self, number: int, is_running: Callable[[], bool]) -> None:
        """Count a child execution as running, as soon as the limit allows it or the whole execution ends."""
        with self._changed:
            while self.limit and self._executions[RUNNING] >= self.limit and is_running():
                self._changed.wait(_LOOKS_EVERY_S)
            self._move(number, PENDING, RUNNING)

    def end(self, number: int, status: str) -> None:
        """Count a running child execution as ended; `status` is one of `ENDS`."""
        with self._changed:
            self._move(number, RUNNING, status)
            self._changed.notify()

    def change_limit(self, limit: int) -> None:
        """Let more or fewer child executions run at a time; those that run go on."""
        with self._changed:
            self.limit = limit
            self._changed.notify_all()
        self.launch(limit)

    def counts(self) -> dict[str, dict[str, int]]:
        """Return DescribeMapRun's itemCounts and executionCounts."""
        with self._changed:
            both = {"itemCounts": self._items, "executionCounts": self._executions}
            return {name: _counts(counter) for name, counter in both.items()}

    def _move(self, number: int, before: str, after: str) -> None:
        for counter, weight in ((self._executions, 1), (self._items, self._sizes[number])):
            counter[before] -= weight
            counter[after] += weight


def _counts(counter: Counter[str]) -> dict[str, int]:
    shown = {name: counter[name] for name in (PENDING, RUNNING, *ENDS)}
    # Recorded for what succeeds; AWS also writes what became of failed ones (assumed to count).
    written = counter["succeeded"] + counter["failed"]
    return {**shown, "total": sum(shown.values()), "resultsWritten": written}


def patch_interpreter() -> None:
    """Give each of the interpreter's Map Runs a `Progress`. Called once."""
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.itemprocessor import (
        map_run_record,
    )

    record: Any = map_run_record.MapRunRecord
    create = record.__init__

    def create_with_progress(self: Any, *args: Any, **named: Any) -> None:
        create(self, *args, **named)
        self.progress = Progress(self.max_concurrency)

    record.__init__ = create_with_progress
    set_stop = record.set_stop

    def stop_once(self: Any, status: Any) -> None:
        # The interpreter says SUCCEEDED when the execution was stopped.
        if self.stop_date is None:
            set_stop(self, status)

    record.set_stop = stop_once


def describe(record: Any) -> dict[str, Any]:
    """Return what DescribeMapRun and ListMapRuns answer of a Map Run, with times as ISO text."""
    stopped = {} if record.stop_date is None else {"stopDate": record.stop_date.isoformat()}
    return {
        "mapRunArn": record.map_run_arn,
        "executionArn": record.execution_arn,
        "stateMachineArn": record.map_state_machine_arn,
        "status": str(getattr(record.status, "value", record.status)),
        "startDate": record.start_date.isoformat(),
        **stopped,
        "maxConcurrency": record.progress.limit,
        "toleratedFailureCount": record.tolerated_failure_count,
        "toleratedFailurePercentage": float(record.tolerated_failure_percentage),
        **record.progress.counts(),
    }


def store(execution: Any, map_runs: list[dict[str, Any]]) -> None:
    """Keep an ended execution's Map Runs with moto's execution, after those before its redrive."""
    if map_runs:
        rows = [*_stored_of(execution), *map_runs]
        execution.map_runs = zlib.compress(json.dumps(rows).encode(), 1)


def _stored_of(execution: Any) -> list[dict[str, Any]]:
    stored = getattr(execution, "map_runs", None)
    return cast("list[dict[str, Any]]", json.loads(zlib.decompress(stored))) if stored else []


# --- the calls --------------------------------------------------------------------------------


def patch(response: Any) -> None:
    """Replace methods of moto's response, which gives empty successes."""
    response.list_map_runs = _list_map_runs
    response.describe_map_run = _describe_map_run
    response.update_map_run = _update_map_run


def _list_map_runs(self: Any) -> Any:
    from moto.core.responses import ActionResult

    execution = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
    rows = [{name: row[name] for name in row if name in _LISTED} for row in _map_runs_of(execution)]
    shown, more = answers.page(self, rows)
    return ActionResult({"mapRuns": shown, **more})


_LISTED = {"executionArn", "mapRunArn", "stateMachineArn", "startDate", "stopDate"}


def _describe_map_run(self: Any) -> Any:
    from moto.core.responses import ActionResult

    row = _find(self.stepfunction_backend, self._get_param("mapRunArn"))
    return ActionResult({key: row[key] for key in row if key != "stateMachineArn"})


def _find(backend: Any, arn: str) -> dict[str, Any]:
    """Return what is known of a Map Run. Raises AwsError when there is none."""
    for execution in _executions_of(backend, _check_arn(arn)):
        for row in _map_runs_of(execution):
            if row["mapRunArn"] == arn:
                return row
    raise _missing(arn)


def refuse_children(backend: Any, arn: str) -> AwsError:
    """Return the refusal of a list of a Map Run's child executions. Raises AwsError when there is no such run."""
    _find(backend, arn)
    return AwsError(
        "ValidationException",
        "headrace keeps no child executions of Map Runs: DescribeMapRun counts them, and a ResultWriter's files"
        f" tell what became of them: '{arn}'",
    )


def _update_map_run(self: Any) -> Any:
    from moto.core.responses import EmptyResult

    arn = _check_arn(self._get_param("mapRunArn"))
    for execution in _executions_of(self.stepfunction_backend, arn):
        run = _run_of(execution)
        record = None if run is None else run.map_run(arn)
        if record is not None and record.stop_date is None:
            _change(record, self._get_param)
            return EmptyResult()
        if any(row["mapRunArn"] == arn for row in _map_runs_of(execution)):
            # Documented: only a Map Run in progress can be updated. The code and the sentence are assumed.
            raise AwsError("ValidationException", f"The Map Run is not in progress: '{arn}'")
    raise _missing(arn)


def _change(record: Any, given: Callable[[str], Any]) -> None:
    limit = given("maxConcurrency")
    count, percentage = given("toleratedFailureCount"), given("toleratedFailurePercentage")
    if count is not None:
        record.tolerated_failure_count = int(count)
    if percentage is not None:
        record.tolerated_failure_percentage = float(percentage)
    if limit is not None:
        record.progress.change_limit(int(limit))


def _check_arn(arn: str) -> str:
    if ":mapRun:" not in arn:
        raise answers.refuse_arn(arn)
    return arn


def _missing(arn: str) -> AwsError:
    # The code is documented, the sentence is assumed.
    return AwsError("ResourceNotFound", f"Map Run does not exist: '{arn}'")


def _executions_of(backend: Any, arn: str) -> Iterator[Any]:
    """Yield the executions of the machine that a Map Run's ARN names."""
    machine_arn = arn.replace(":mapRun:", ":stateMachine:", 1).partition("/")[0]
    for machine in backend.state_machines:
        if machine.arn == machine_arn:
            yield from machine.executions


def _run_of(execution: Any) -> Any:
    return (
        None if CURRENT.executions is None else CURRENT.executions.run_of(execution.execution_arn)
    )


def _map_runs_of(execution: Any) -> list[dict[str, Any]]:
    """Return an execution's Map Runs in order, with times as datetimes."""
    run, rows = _run_of(execution), _stored_of(execution)
    if run is not None:
        rows += cast("list[dict[str, Any]]", run.map_runs())
    for row in rows:
        for name in ("startDate", "stopDate"):
            if name in row:
                row[name] = datetime.fromisoformat(row[name])
    return rows
