"""Tumbling windows: state from batch to batch, one end for each window, over restarts and failures."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.ports import InvokeResult
from headrace.services.lambda_.mappings.batch import STATE_BYTES, Window
from tests.unit.lambda_.test_poller import Rig, rig

# 2023-11-14T22:13:20Z, a whole number of ten-second windows.
START_MS = 1_700_000_000_000


class Summer:
    """A function that adds numbers up in its state, and keeps every event."""

    def __init__(self, script: Iterator[str] | None = None) -> None:
        self._script = script or iter(())
        self.events: list[dict[str, Any]] = []
        self.totals: dict[str, int] = defaultdict(int)

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        event = json.loads(payload)
        action = next(self._script, "ok")
        if action == "raise":
            return InvokeResult(b"{}", "Unhandled", "$LATEST", "id")
        if action == "forget":
            return InvokeResult(b'{"batchItemFailures": []}', None, "$LATEST", "id")
        self.events.append(event)
        numbers = [int(base64.b64decode(r["kinesis"]["data"])) for r in event["Records"]]
        total = event["state"].get("total", 0) + sum(numbers)
        if event["isFinalInvokeForWindow"]:
            self.totals[event["window"]["start"]] += total
        answer = {
            "state": {"total": total, **({"pad": "x" * STATE_BYTES} if action == "big" else {})}
        }
        return InvokeResult(json.dumps(answer).encode(), None, "$LATEST", "id")


def windowed(function: Any, **members: Any) -> Any:
    return rig(function, TumblingWindowInSeconds=10, **members)


def test_state_is_handed_on_and_the_window_ends_with_no_records() -> None:
    function = Summer()
    with windowed(function, BatchSize=2) as made:
        made.put(1, 2, 3)
        run(made, 12)
        first, second, final = function.events
        assert first["window"] == {"start": "2023-11-14T22:13:20Z", "end": "2023-11-14T22:13:30Z"}
        assert first["state"] == {}
        assert second["state"] == {"total": 3}
        assert (first["isFinalInvokeForWindow"], first["isWindowTerminatedEarly"]) == (False, False)
        assert first["shardId"] == "shardId-0"
        assert first["eventSourceARN"].endswith("stream/flights")
        assert final["Records"] == []
        assert final["isFinalInvokeForWindow"] is True
        assert final["state"] == {"total": 6}
        assert function.totals == {"2023-11-14T22:13:20Z": 6}


def run(made: Rig, steps: int) -> None:
    for _ in range(steps):
        made.step()


def test_a_record_of_the_next_window_ends_the_one_before() -> None:
    function = Summer()
    with windowed(function, BatchSize=10) as made:
        made.put(1, 2)
        made.clock.advance(10)
        made.put(4)
        run(made, 5)
        assert [e["isFinalInvokeForWindow"] for e in function.events] == [False, True, False]
        assert function.events[-1]["state"] == {}
        assert function.events[-1]["window"]["start"] == "2023-11-14T22:13:30Z"


def test_a_window_is_kept_over_a_restart_and_ends_once() -> None:
    function = Summer()
    with windowed(function, BatchSize=10) as made:
        made.put(1, 2)
        run(made, 2)
        made.restart()
        made.put(4)
        run(made, 2)
        assert function.events[-1]["state"] == {"total": 3}
        made.restart()
        made.clock.advance(11)
        run(made, 3)
        made.restart()
        made.run()
        assert function.totals == {"2023-11-14T22:13:20Z": 7}
        assert sum(e["isFinalInvokeForWindow"] for e in function.events) == 1


def test_a_closed_shard_ends_its_window_at_once() -> None:
    function = Summer()
    with windowed(function) as made:
        made.put(5)
        made.streams.replace("shardId-0", "left")
        made.run()
        assert made.drained
        assert made.clock.now_ms() < START_MS + 10_000
        assert function.totals == {"2023-11-14T22:13:20Z": 5}


def test_an_answer_without_state_fails_and_is_retried_with_the_old_state() -> None:
    function = Summer(iter(["ok", "forget"]))
    with windowed(function, BatchSize=1) as made:
        made.put(1, 2)
        run(made, 6)
        assert made.mapping.last_result == "OK"
        assert [e["state"] for e in function.events[:2]] == [{}, {"total": 1}]


def test_state_over_its_limit_ends_the_window_early_and_it_goes_on_afresh() -> None:
    function = Summer(iter(["big"]))
    with windowed(function, BatchSize=1) as made:
        made.put(1, 2)
        run(made, 6)
        first, early, second = function.events[:3]
        assert (early["isFinalInvokeForWindow"], early["isWindowTerminatedEarly"]) == (True, True)
        assert early["state"]["total"] == 1
        assert early["window"] == first["window"] == second["window"]
        assert second["state"] == {}


def test_partial_failures_keep_the_state_of_what_was_done() -> None:
    class Partial(Summer):
        def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
            event = json.loads(payload)
            if len(event["Records"]) != 3:
                return super().invoke(function_arn, payload)
            bad = event["Records"][2]["kinesis"]["sequenceNumber"]
            answer = {"state": {"total": 3}, "batchItemFailures": [{"itemIdentifier": bad}]}
            return InvokeResult(json.dumps(answer).encode(), None, "$LATEST", "id")

    function = Partial()
    with windowed(function) as made:
        made.put(1, 2, 3)
        run(made, 3)
        assert function.events[0]["state"] == {"total": 3}
        assert len(function.events[0]["Records"]) == 1


def test_a_final_invocation_that_keeps_failing_is_given_up() -> None:
    function = Summer(iter(["ok", "raise", "raise", "raise"]))
    with windowed(function, MaximumRetryAttempts=1) as made:
        made.put(1)
        run(made, 2)
        made.clock.advance(11)
        made.put(2)
        run(made, 12)
        assert function.totals == {"2023-11-14T22:13:30Z": 2}


@settings(max_examples=80, deadline=None)
@given(
    gaps_s=st.lists(st.integers(0, 8), min_size=1, max_size=25),
    batch_size=st.integers(1, 5),
    script=st.lists(st.sampled_from(["ok", "raise", "forget"]), max_size=15),
    restarts=st.lists(st.integers(1, 10), max_size=3),
    bisect=st.booleans(),
)
def test_every_window_is_summed_exactly_once(
    gaps_s: list[int], batch_size: int, script: list[str], restarts: list[int], bisect: bool
) -> None:
    """A kill between steps loses nothing and counts nothing twice: state and checkpoint move together."""
    function = Summer(iter(script))
    expected: dict[str, int] = defaultdict(int)
    with windowed(function, BatchSize=batch_size, BisectBatchOnFunctionError=bisect) as made:
        for number, gap_s in enumerate(gaps_s, 1):
            made.clock.advance(gap_s)
            made.put(number)
            expected[Window.of(made.clock.now_ms(), 10).start] += number
        made.streams.replace("shardId-0")
        for steps in restarts:
            if made.drained:
                break
            run_some(made, steps)
            made.restart()
        if not made.drained:
            made.run()
        assert function.totals == expected


def run_some(made: Rig, steps: int) -> None:
    from headrace.core.workers import WorkerDone

    for _ in range(steps):
        try:
            made.step()
        except WorkerDone:
            return
