"""The oracle of convergence on `aggregate` and `redrive`: what is right passes, and a seeded bug of each is found."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headrace.testing import NotConverged, assert_converges, hostile
from headrace.testing.hostile import Event
from tests.lambdas import test_aggregate as aggregate
from tests.lambdas import test_redrive as redrive
from tests.lambdas.conftest import EVENTS

FLIGHTS = hostile.from_file(EVENTS / "kinesis_flights.json")[:8]
POISON = Event(FLIGHTS[0].key, b"no flight")
State = dict[str, Any]


# --- aggregate ------------------------------------------------------------------------------------


def own_state(given: State, _: State) -> State:
    """Return what Lambda hands to the function: the state that its last answer of this window held."""
    return given


def in_memory(_: State, newest: State) -> State:
    """Return what a function would go on from that keeps its counts in memory."""
    return newest


class Window:
    """A tumbling window: Lambda keeps an answer's state once the batch is done, and calls once more at the end."""

    def __init__(self, state_of: Callable[[State, State], State]) -> None:
        self._state_of = state_of
        self._table = aggregate.FakeTable(refusals=1)
        self._before: State = {}
        self._state: State = {}
        self._last: Sequence[Event] = ()
        self._died = False

    def process(self, batch: Sequence[Event]) -> None:
        comes_again = self._died and batch == self._last
        given = self._before if comes_again else self._state
        records = [{"kinesis": {"data": base64.b64encode(e.data).decode()}} for e in batch]
        event = aggregate.event(records, self._state_of(given, self._state), final=False)
        self._before, self._state = given, aggregate.run(event, self._table)
        self._last, self._died = batch, False

    def restart(self) -> None:
        self._died = True

    def state(self) -> Any:
        # The last invocation is repeated: its answer was lost.
        for _ in range(2):
            aggregate.run(aggregate.event([], self._state, final=True), self._table)
        items = {item["carrier_shard"]["S"]: item for item in self._table.items}
        return {key: item["departures"]["N"] for key, item in sorted(items.items())}


def test_aggregate_converges_and_counts_kept_in_memory_are_found() -> None:
    events = [*FLIGHTS, POISON]
    assert_converges(lambda: Window(own_state), events, duplicates="redelivery", seed=1)
    with pytest.raises(NotConverged, match="delivered again"):
        assert_converges(lambda: Window(in_memory), events, duplicates="redelivery", seed=1)


def test_aggregate_counts_arrivals_so_a_flight_that_is_written_twice_counts_twice() -> None:
    """As lambdas/aggregate/handler.py says."""
    with pytest.raises(NotConverged):
        assert_converges(lambda: Window(own_state), FLIGHTS, duplicates="producer", seed=1)


# --- redrive --------------------------------------------------------------------------------------

SHARD = [event.data for event in [*FLIGHTS[:3], POISON, *FLIGHTS[3:6], POISON]]
RANGES = [(100, 101), (102, 104), (103, 103), (105, 107), (400, 402)]
MESSAGES = [Event("queue", redrive.message(*each)["body"].encode()) for each in RANGES]


class Queue:
    """A queue of failure messages: one comes again until the function does not name it as failed."""

    def __init__(self, *, is_forgetful: bool = False) -> None:
        # The stream refuses a whole message's puts, and then a single one.
        self._shard = redrive.FakeShard(SHARD, refuses=redrive.HANDLER.TRIES + 1)
        self._reports = redrive.FakeQueue()
        self._is_forgetful = is_forgetful

    def process(self, batch: Sequence[Event]) -> None:
        messages = [
            {"messageId": f"m{n}", "body": event.data.decode()} for n, event in enumerate(batch)
        ]
        while messages:
            answer = redrive.HANDLER.process(
                messages, kinesis=self._shard, sqs=self._reports, report_queue_url="url",
                pause=lambda _: None,
            )  # fmt: skip
            failed = {one["itemIdentifier"] for one in answer["batchItemFailures"]}
            messages = [
                one for one in messages if one["messageId"] in failed and not self._is_forgetful
            ]

    def restart(self) -> None:
        """A function has nothing in memory."""

    def state(self) -> Any:
        put = {json.loads(record["Data"])["event_id"] for record in self._shard.put}
        return sorted(put), sorted({str(sorted(one.items())) for one in self._reports.reports})


def test_redrive_converges_and_a_forgotten_failure_is_found() -> None:
    """Readers of the stream take `event_id` as the key; who reads reports takes the place of the record."""
    assert_converges(Queue, MESSAGES, order="none", seed=1)
    # Which message meets the refusals depends on the order: what was not put back is another.
    with pytest.raises(NotConverged, match="batch 1"):
        assert_converges(lambda: Queue(is_forgetful=True), MESSAGES, order="none", seed=1)
