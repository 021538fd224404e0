"""Checks convergence: however a stream is delivered to a pipeline, the pipeline's final state must be the same.

Streams deliver at least once, in unpredictable batches, in order only within a key, and consumers restart. A correct
pipeline reaches the same final state in every case. A failure shows the smallest such stream and both states.
"""

from __future__ import annotations

import base64
import copy
import difflib
import pprint
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

from headrace.testing.hostile import Event

# A function that fails this often on one batch never succeeds.
MOST_TRIES = 50
_TWO_STATES = 2
_FIRST_NUMBER = 49_650_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000
_STREAM_ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/oracle"


class NotConverged(AssertionError):
    """Two deliveries of the same events lead to different states; the text shows the smallest such delivery."""


class NothingProcessed(AssertionError):
    """The events do not change the state, so every delivery would converge. The text shows the state."""


class Pipeline(Protocol):
    """The pipeline under test; a new one is made for each delivery."""

    def process(self, batch: Sequence[Event]) -> Any:
        """Handle some events. Exceptions go to the test."""
        ...

    def restart(self) -> None:
        """Drop all state that is only in memory."""
        ...

    def state(self) -> Any:
        """Return the final state; `==` compares states."""
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """One possible delivery of some events.

    Attributes:
        events: the events in order of arrival, with the producer's duplicates.
        batches: the size of each batch.
        again: the batches that are delivered twice, as if the consumer died before its checkpoint.
        restarts: the batches after which the consumer restarts.
    """

    events: tuple[Event, ...]
    batches: tuple[int, ...]
    again: frozenset[int] = frozenset()
    restarts: frozenset[int] = frozenset()

    def described(self) -> str:
        """Return the delivery as text, one line for each batch."""
        lines: list[str] = []
        start = 0
        for number, size in enumerate(self.batches):
            shown = ", ".join(
                f"{e.key}: {_render(e.data)}" for e in self.events[start : start + size]
            )
            notes = [
                *(["delivered again"] if number in self.again else []),
                *(["then a restart"] if number in self.restarts else []),
            ]
            lines.append(
                f"  batch {number + 1}: {shown}" + (f"  ({', '.join(notes)})" if notes else "")
            )
            start += size
        return "\n".join(lines) or "  nothing"


def _render(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace")
    return text if len(text) <= 100 else f"{text[:97]}..."


def run(pipeline: Pipeline, delivery: Delivery) -> Any:
    """Deliver the events to a pipeline, and return its final state."""
    start = 0
    for number, size in enumerate(delivery.batches):
        batch = delivery.events[start : start + size]
        start += size
        pipeline.process(batch)
        if number in delivery.again:
            pipeline.restart()
            pipeline.process(batch)
        if number in delivery.restarts:
            pipeline.restart()
    return pipeline.state()


def in_order(events: Sequence[Event]) -> Delivery:
    """Return the simplest delivery: each event once, in order, one at a time."""
    return Delivery(tuple(events), (1,) * len(events))


def assert_converges(
    pipeline: Callable[[], Pipeline],
    events: Sequence[Event],
    *,
    order: Literal["key", "none"] = "key",
    duplicates: Literal["none", "redelivery", "producer"] = "producer",
    restarts: bool = True,
    examples: int = 100,
    seed: int | None = None,
) -> None:
    """Check that every delivery of the events ends in the state of the ordered stream.

    Args:
        pipeline: makes a new, empty pipeline.
        events: the events to draw streams from; any subset of them may be tried.
        order: `key` keeps the order within a key, as a stream does; `none` allows any order.
        duplicates: `redelivery` delivers batches twice; `producer` also puts events a second time, later.
        restarts: whether the consumer also restarts between batches.
        examples: how many deliveries are tried.
        seed: the seed of the tries; the default is hypothesis' own.

    Raises NotConverged with the smallest failing delivery, NothingProcessed when the events do not change the state,
    and ValueError when `events` is empty.
    """
    from hypothesis import strategies as st

    if not events:
        raise ValueError(
            "assert_converges needs at least one event: an empty stream always converges."
        )
    worst: list[tuple[Delivery, Any, Any]] = []
    ordered: list[Any] = []

    def check(data: Any) -> None:
        chosen, delivery = _draw_delivery(
            data, st, events, order=order, duplicates=duplicates, restarts=restarts
        )
        # A copy, because a pipeline may return an object that the next pipeline changes.
        expected = _copy_state(run(pipeline(), in_order(chosen)))
        if len(ordered) < _TWO_STATES and expected not in ordered:
            ordered.append(expected)
        got = run(pipeline(), delivery)
        if expected != got:
            worst.append((delivery, expected, got))
            raise NotConverged

    try:
        _try_examples(check, examples, seed)
    except NotConverged:
        # hypothesis shrinks: the last failure is the smallest.
        raise NotConverged(_message(*worst[-1])) from None
    if len(ordered) < _TWO_STATES:
        _check_that_events_count(pipeline, events)


def _try_examples(check: Callable[[Any], None], examples: int, seed: int | None) -> None:
    """Let hypothesis call the check with so many draws, and shrink one that it refuses."""
    import hypothesis
    from hypothesis import strategies as st

    test = hypothesis.given(st.data())(check)
    if seed is not None:
        test = hypothesis.seed(seed)(test)
    hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=cast("Any", list(hypothesis.HealthCheck)),
    )(test)()


def _check_that_events_count(pipeline: Callable[[], Pipeline], events: Sequence[Event]) -> None:
    """Raise NothingProcessed when the state after all events equals the state after none."""
    untouched = _copy_state(run(pipeline(), in_order(())))
    state = run(pipeline(), in_order(events))
    if state == untouched:
        raise NothingProcessed(
            f"The state is the same after {len(events)} events as after none:"
            f" {pprint.pformat(state, width=70)}."
            " Either the pipeline ignores all events, or `state()` does not read what it writes."
        )


def _copy_state(state: Any) -> Any:
    """Return a copy of a state, or the state itself if it cannot be copied."""
    try:
        return copy.deepcopy(state)
    except TypeError:
        return state


def _draw_delivery(
    data: Any,
    st: Any,
    events: Sequence[Event],
    *,
    order: str,
    duplicates: str,
    restarts: bool,
) -> tuple[list[Event], Delivery]:
    """Draw some events and a delivery of them. Simpler choices come first, so that hypothesis shrinks to them."""
    picked: list[int] = data.draw(
        st.lists(st.integers(0, len(events) - 1), unique=True, max_size=len(events))
        if events
        else st.just([])
    )
    picked.sort()
    chosen = [events[n] for n in picked]
    coming = _interleave(data, st, chosen, order)
    if duplicates == "producer" and coming:
        # A producer that got no answer retries: the duplicate lands behind the records put in the meantime.
        for n in sorted(
            cast("set[int]", data.draw(st.sets(st.integers(0, len(coming) - 1), max_size=2)))
        ):
            coming.insert(data.draw(st.integers(n + 1, len(coming))), coming[n])
    batches: list[int] = []
    while sum(batches) < len(coming):
        batches.append(data.draw(st.integers(1, len(coming) - sum(batches))))
    numbers = st.frozensets(st.integers(0, max(0, len(batches) - 1)), max_size=3)
    again: frozenset[int] = (
        data.draw(numbers) if duplicates != "none" and batches else frozenset[int]()
    )
    restarted: frozenset[int] = data.draw(numbers) if restarts and batches else frozenset[int]()
    return chosen, Delivery(tuple(coming), tuple(batches), again, restarted)


def _interleave(data: Any, st: Any, chosen: list[Event], order: str) -> list[Event]:
    if order == "none":
        return list(data.draw(st.permutations(chosen))) if chosen else []
    left: dict[str, list[Event]] = {}
    for event in chosen:
        left.setdefault(event.key, []).append(event)
    coming: list[Event] = []
    while left:
        keys = list(left)
        key = data.draw(st.sampled_from(keys)) if len(keys) > 1 else keys[0]
        coming.append(left[key].pop(0))
        if not left[key]:
            del left[key]
    return coming


def _message(delivery: Delivery, expected: Any, got: Any) -> str:
    before, after = (pprint.pformat(one, width=70).splitlines() for one in (expected, got))
    beside = difflib.ndiff(before, after)
    states = "\n".join(f"  {line}" for line in beside if not line.startswith("?"))
    return (
        "The pipeline does not converge. The smallest stream that shows it:\n"
        f"{delivery.described()}\n"
        "The state of the ordered stream (-), and this one's (+):\n"
        f"{states}"
    )


# --- Lambda handlers ----------------------------------------------------------------------------


@dataclass
class HandlerPipeline:
    """A Lambda handler as a pipeline: it gets batches as Kinesis events, and its answers count as they do on Lambda.

    A failed batch is delivered again whole, or, with `batchItemFailures`, from the lowest failure on. A single record
    that fails `tries` times is given up, as if sent to a failure destination.

    Attributes:
        handler: takes the event and a context.
        read_state: returns the final state of the handler's output.
        forget: is called at a restart; drops the handler's state in memory.
        tries: how often a record may fail before it is given up.
        given_up: the data of the records that were given up.
    """

    handler: Callable[[dict[str, Any], Any], Any]
    read_state: Callable[[], Any]
    forget: Callable[[], None] = lambda: None
    tries: int = 3
    given_up: list[bytes] = field(default_factory=list[bytes])
    _numbers: int = 0

    def process(self, batch: Sequence[Event]) -> None:
        """See `Pipeline.process`."""
        left = list(self._records(batch))
        failures: dict[str, int] = {}
        for _ in range(MOST_TRIES * max(1, len(batch))):
            if not left:
                return
            failed = self._invoke(left)
            if failed is None:
                return
            left = left[failed:]
            number = left[0]["kinesis"]["sequenceNumber"]
            failures[number] = failures.get(number, 0) + 1
            if failures[number] >= self.tries:
                self._give_up(left)
                left = left[1:]
        raise AssertionError(f"The handler fails again and again with {len(left)} records left.")

    def _give_up(self, left: list[dict[str, Any]]) -> None:
        self.given_up.append(base64.b64decode(left[0]["kinesis"]["data"]))

    def _invoke(self, records: list[dict[str, Any]]) -> int | None:
        """Invoke the handler; return the index of the first record to deliver again."""
        try:
            answer: Any = self.handler({"Records": records}, None)
        except Exception:  # noqa: BLE001 - a batch that fails
            if len(records) > 1:
                # As BisectBatchOnFunctionError does: try the first half next.
                half = self._invoke(records[: len(records) // 2])
                return len(records) // 2 if half is None else half
            return 0
        items: list[dict[str, str]] = answer.get("batchItemFailures") or [] if answer else []
        if not items:
            return None
        places = {one["kinesis"]["sequenceNumber"]: n for n, one in enumerate(records)}
        named = [places.get(item["itemIdentifier"]) for item in items]
        # An unknown identifier fails the whole batch. Source: services-kinesis-batchfailurereporting.html (documented).
        return 0 if None in named else min(n for n in named if n is not None)

    def restart(self) -> None:
        """See `Pipeline.restart`."""
        self.forget()

    def state(self) -> Any:
        """See `Pipeline.state`."""
        return self.read_state()

    def _records(self, batch: Sequence[Event]) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        for event in batch:
            self._numbers += 1
            number = str(_FIRST_NUMBER + self._numbers)
            records.append(
                {
                    "kinesis": {
                        "kinesisSchemaVersion": "1.0",
                        "partitionKey": event.key,
                        "sequenceNumber": number,
                        "data": base64.b64encode(event.data).decode(),
                        "approximateArrivalTimestamp": (event.time_ms or 0) / 1000,
                    },
                    "eventSource": "aws:kinesis",
                    "eventVersion": "1.0",
                    "eventID": f"shardId-000000000000:{number}",
                    "eventName": "aws:kinesis:record",
                    "awsRegion": "us-east-1",
                    "eventSourceARN": _STREAM_ARN,
                }
            )
        return records
