"""Runs the flows of an `agent.json`: reads, converts, sends, and only then stores how far it came.

Sends records to a stream or a delivery stream, and returns once AWS has acknowledged all of them.

Puts an agent's metrics into CloudWatch as Kinesis Agent does: four for each destination, over all its requests.

Names, units, the dimension and the defaults are those of awslabs/amazon-kinesis-agent (observed in its source); what
they mean is documented: https://docs.aws.amazon.com/streams/latest/dev/agent-health.html.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import math
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from headrace.agent.kinesis_agent import AgentSettings, Flow
from headrace.agent.lines import Splitter
from headrace.agent.positions import PositionStore
from headrace.agent.tailer import Tailer
from headrace.client import Producer, PutError, PutsFailed
from headrace.client.receipts import RequestCounts
from headrace.client.wire import ServiceError, WireError
from headrace.core.clock import Clock

_MOST_AT_ONCE = 20
_Key = tuple[str, str, str]


@dataclass(slots=True)
class _Statistics:
    """One metric's values since it was put last."""

    count: int
    sum: float
    least: float
    most: float

    def add(self, value: float) -> None:
        self.count += 1
        self.sum += value
        self.least, self.most = min(self.least, value), max(self.most, value)


class AgentMetrics:
    """The statistics of an agent's requests. Thread-safe.

    Durability: none. What CloudWatch does not take is dropped, which the log says; records do not wait for it.
    """

    def __init__(
        self, make_client: Callable[[], Any], namespace: str, every_s: float, clock: Clock
    ) -> None:
        """Take what makes boto3's client, which nothing needs before the first publication."""
        self._make_client, self._namespace = make_client, namespace
        self._every_s, self._clock = every_s, clock
        self._client: Any = None
        self._lock, self._statistics = threading.Lock(), dict[_Key, _Statistics]()
        self._failures = 0

    def noting(self, destination: str) -> Callable[[RequestCounts], None]:
        """Return what notes a request to a destination, such as `KinesisStream:logs`."""

        def note(counts: RequestCounts) -> None:
            values = [("RecordSendAttempts", "Count", counts.records)]
            values.append(("ServiceErrors", "Count", int(counts.has_failed)))
            if not counts.has_failed:
                values.append(("RecordSendErrors", "Count", counts.refused))
                values.append(("BytesSent", "Bytes", counts.bytes_))
            with self._lock:
                for name, unit, value in values:
                    known = self._statistics.get((destination, name, unit))
                    if known is None:
                        first = _Statistics(1, value, value, value)
                        self._statistics[destination, name, unit] = first
                    else:
                        known.add(value)

        return note

    def run(self, stop: threading.Event) -> None:
        """Publish again and again, and once more at the end."""
        while not self._clock.wait(stop, self._every_s):
            self.publish()
        self.publish()

    def publish(self) -> None:
        """Put what was noted since the last time."""
        with self._lock:
            statistics, self._statistics = self._statistics, {}
        data = [_datum(key, values) for key, values in statistics.items()]
        try:
            if data and self._client is None:
                self._client = self._make_client()
            for at in range(0, len(data), _MOST_AT_ONCE):
                self._client.put_metric_data(
                    Namespace=self._namespace, MetricData=data[at : at + _MOST_AT_ONCE]
                )
        except Exception as error:  # noqa: BLE001 - such as an endpoint that is no URL: records do not suffer from it
            self._failures += 1
            if self._failures & (self._failures - 1) == 0:
                _LOG.warning(
                    "metrics are not published, and dropped: %s (%d times);"
                    " cloudwatch.emitMetrics = false spares them",
                    error,
                    self._failures,
                )


def _datum(key: _Key, values: _Statistics) -> dict[str, Any]:
    destination, name, unit = key
    return {
        "MetricName": name,
        "Dimensions": [{"Name": "Destination", "Value": destination}],
        "Unit": unit,
        "StatisticValues": {
            "SampleCount": values.count,
            "Sum": values.sum,
            "Minimum": values.least,
            "Maximum": values.most,
        },
    }


READ_BYTES = 4 << 20
_LONGEST_PAUSE_S = 10.0
# How often a run with an end sends the same records before it fails.
TRIES_ONCE = 5
_REFUSALS = (PutsFailed, PutError, BotoCoreError, ClientError, ServiceError, WireError, OSError)
_LOG = logging.getLogger("headrace.agent")


@dataclass(slots=True)
class FlowCounts:
    """What a flow has done. Written by its thread alone."""

    records: int = 0
    bytes_: int = 0
    left_out: int = 0
    failures: int = 0


class FlowRunner:
    """A flow of an agent. `step` is for one thread.

    Durability: a position is stored after the records before it were acknowledged, so a kill loses none; what was
    acknowledged and not yet stored is sent again by the next start.
    """

    def __init__(
        self,
        flow: Flow,
        store: PositionStore,
        make_sender: Callable[[Flow], Sender],
        clock: Clock,
        stop: threading.Event,
    ) -> None:
        """Take the flow; nothing is read yet."""
        self.flow, self.counts = flow, FlowCounts()
        self._store, self._clock, self._stop = store, clock, stop
        self._sender = make_sender(flow)
        self._tailer = Tailer(
            [flow.pattern],
            store.positions(flow.id),
            Splitter(
                flow.longest_bytes, terminator=flow.terminator, starts_record=flow.starts_record
            ),
            clock,
            from_start=flow.from_start,
            lines_to_skip=flow.lines_to_skip,
            is_footer=flow.is_footer,
        )

    @property
    def is_at_end(self) -> bool:
        """Whether every file was read to its last whole line."""
        return self._tailer.is_at_end

    def step(self, *, looks: bool = True, most_tries: float = math.inf) -> bool:
        """Read, send and store once; return whether there was anything. Raises OSError, Stopped, NotSent."""
        positions = self._tailer.look() if looks else []
        pieces = self._tailer.read(READ_BYTES)
        records = [record for piece in pieces for record in piece.records]
        taken = len(records)
        if self.flow.convert is not None:
            convert = self.flow.convert
            records = [
                converted for record in records if (converted := convert(record)) is not None
            ]
        if records:
            self._send(
                _join_records(records, self.flow.joined_bytes)
                if self.flow.joined_bytes
                else records,
                most_tries,
            )
        positions += [piece.position for piece in pieces]
        if positions or self._store.positions(self.flow.id) is None:
            self._store.commit(self.flow.id, positions, self._clock.now_ms())
        self.counts.records += len(records)
        self.counts.bytes_ += sum(map(len, records))
        self.counts.left_out += taken - len(records)
        return bool(pieces)

    def _send(self, records: list[bytes], most_tries: float) -> None:
        """Send until all are acknowledged. After a failure all of them are sent again. Raises Stopped, NotSent."""
        pause_s = self.flow.poll_ms / 1000
        for tries in itertools.count(1):
            try:
                self._sender.send(records)
            except _REFUSALS as error:
                self.counts.failures += 1
                if tries >= most_tries:
                    raise NotSent(f"{self.flow.id}: after {tries} tries: {error}") from error
                _LOG.error("%s: %s; it is tried again", self.flow.id, error)
            else:
                return
            if self._clock.wait(self._stop, pause_s):
                raise Stopped
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def run(self, *, once: bool) -> None:
        """Run until the agent stops, or, `once`, until every file is read to its end.

        Raises OSError and, `once`, NotSent for records that nobody takes; the next run sends them.
        """
        try:
            while not self._stop.is_set():
                try:
                    was_busy = self.step(most_tries=TRIES_ONCE if once else math.inf)
                except OSError as error:
                    # Such as a full disk: the records are sent again, since their position is not stored.
                    _LOG.error("%s: %s", self.flow.id, error)
                    raise
                if once and not was_busy and not self._tailer.waits_for_quiet():
                    return
                if not was_busy:
                    self._clock.wait(self._stop, self.flow.poll_ms / 1000)
        except Stopped:
            _LOG.info("%s stops; what was not acknowledged is sent at the next start", self.flow.id)
        finally:
            self._tailer.close(self._store.positions(self.flow.id) or ())
            self._sender.close()


def _join_records(records: list[bytes], most_bytes: int) -> list[bytes]:
    """Return neighbours as one record each; a record that is larger alone stays as it is."""
    parts: list[list[bytes]] = []
    size = 0
    for record in records:
        size += len(record)
        if not parts or size > most_bytes:
            parts.append([])
            size = len(record)
        parts[-1].append(record)
    return [b"".join(part) for part in parts]


class Agent:
    """All flows of an `agent.json`, a thread for each."""

    def __init__(
        self,
        settings: AgentSettings,
        make_sender: Callable[[Flow], Sender],
        clock: Clock,
        stop: threading.Event,
    ) -> None:
        """Open the positions; `stop` ends it. Raises PositionsDamaged, OSError."""
        self.stop = stop
        self._failure: BaseException | None = None
        self._store = PositionStore(settings.positions, keep_days=settings.keep_days)
        self.runners = [
            FlowRunner(flow, self._store, make_sender, clock, self.stop) for flow in settings.flows
        ]

    def run(self, *, once: bool = False) -> None:
        """Run until `stop` is set, or, `once`, until all files are read. Raises what ended a flow."""
        threads = [
            threading.Thread(target=self._run, args=(runner, once), name=f"agent-{at}", daemon=True)
            for at, runner in enumerate(self.runners)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            # In parts, since a wait without end would not see signals.
            while thread.is_alive():
                thread.join(0.2)
        if self._failure is not None:
            raise self._failure

    def _run(self, runner: FlowRunner, once: bool) -> None:
        try:
            runner.run(once=once)
        except BaseException as error:  # noqa: BLE001 - it is raised by `run`
            self._failure = error
            self.stop.set()


# Records of a block share their random key, which costs less, and leaves aggregates whole.
_BLOCK = 500
_FIREHOSE_RECORDS, _FIREHOSE_BYTES = 500, 4 << 20
_FIRST_PAUSE_S, _LONGEST_RETRY_PAUSE_S = 0.1, 10.0
_FLUSH_S = 0.5


class Stopped(Exception):
    """The agent stops: the records were not sent."""


class NotSent(Exception):
    """A destination takes no records, however often they are sent. The message is one sentence."""


class Sender(Protocol):
    """A destination. For one thread."""

    def send(self, records: Sequence[bytes]) -> None:
        """Return once every record is acknowledged. Raises what AWS answers for good, and Stopped."""
        ...

    def close(self) -> None:
        """Close what it holds open."""
        ...


class KinesisSender:
    """A stream. A record that the stream throttles is tried until it is taken."""

    def __init__(self, producer: Producer, stop: threading.Event, *, is_random_key: bool) -> None:
        self._producer, self._stop, self._is_random_key = producer, stop, is_random_key
        self._random = random.Random()

    def send(self, records: Sequence[bytes]) -> None:
        """See `Sender.send`. Raises PutsFailed and botocore's errors."""
        put = self._producer.put
        if self._is_random_key:
            for at in range(0, len(records), _BLOCK):
                key = f"{self._random.getrandbits(64):016x}"
                for record in records[at : at + _BLOCK]:
                    put(record, key)
        else:
            for record in records:
                put(record, hashlib.md5(record, usedforsecurity=False).hexdigest())
        while True:
            try:
                self._producer.flush(_FLUSH_S)
            except TimeoutError:
                if self._stop.is_set():
                    raise Stopped from None
            else:
                return

    def close(self) -> None:
        """See `Sender.close`. What was not acknowledged is not sent any more."""
        with contextlib.suppress(TimeoutError, PutsFailed):  # Of what `send` raised Stopped for.
            self._producer.close(timeout_s=0.0)


class FirehoseSender:
    """A delivery stream, by PutRecordBatch; entries that fail are sent again."""

    def __init__(
        self, client: Any, name: str, clock: Clock, stop: threading.Event,
        *, most_records: int = _FIREHOSE_RECORDS, most_bytes: int = _FIREHOSE_BYTES,
        on_request: Callable[[RequestCounts], Any] = lambda _: None,
    ) -> None:  # fmt: skip
        """Take the client; the bounds are those of a request, and `on_request` is told what became of each."""
        self._client, self._name, self._clock, self._stop = client, name, clock, stop
        self._most_records, self._most_bytes = most_records, most_bytes
        self._on_request = on_request

    def send(self, records: Sequence[bytes]) -> None:
        """See `Sender.send`. Raises botocore's errors."""
        batch: list[bytes] = []
        size = 0
        for record in records:
            is_full = len(batch) == self._most_records or size + len(record) > self._most_bytes
            if batch and is_full:
                self._put(batch)
                batch, size = [], 0
            batch.append(record)
            size += len(record)
        if batch:
            self._put(batch)

    def _put(self, batch: list[bytes]) -> None:
        pause_s = _FIRST_PAUSE_S
        while batch:
            try:
                answer = self._client.put_record_batch(
                    DeliveryStreamName=self._name, Records=[{"Data": record} for record in batch]
                )
            except (BotoCoreError, ClientError):
                self._on_request(RequestCounts(len(batch), 0, 0, has_failed=True))
                raise
            results = answer["RequestResponses"]
            failed = [
                record
                for record, result in zip(batch, results, strict=True)
                if result.get("ErrorCode")
            ]
            arrived = sum(map(len, batch)) - sum(map(len, failed))
            self._on_request(RequestCounts(len(batch), len(failed), arrived, has_failed=False))
            if failed and self._clock.wait(self._stop, pause_s):
                raise Stopped
            batch, pause_s = failed, min(pause_s * 2, _LONGEST_RETRY_PAUSE_S)

    def close(self) -> None:
        """See `Sender.close`."""
        self._client.close()
