"""Sends metrics to CloudWatch and log lines to CloudWatch Logs, in batches and in the background."""

from __future__ import annotations

import functools
import itertools
import logging
import threading
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import ControlPlane, LogLine, Metric

log = logging.getLogger(__name__)

FLUSH_LOGS_EVERY_S = 0.5
FLUSH_METRICS_EVERY_S = 5.0
# The delay between steps while sending is not allowed.
LOOK_AGAIN_S = 2.0
METRICS_PER_CALL = 1000
# The limits of PutLogEvents: events, bytes, and the bytes that count for each event beside its message.
LOG_EVENTS_PER_CALL = 10_000
LOG_BYTES_PER_CALL = 1_048_576
LOG_EVENT_BYTES = 26
MOST_QUEUED = 100_000
MOST_KNOWN = 10_000

Key = TypeVar("Key")
Item = TypeVar("Item")


class _Backlog(Generic[Key, Item]):
    """The items that wait to be sent, by destination; bounded, so that a slow receiver costs no memory. Thread-safe."""

    def __init__(self, what: str, may_send: Callable[[], bool]) -> None:
        self._what = what
        self._may_send = may_send
        self._lock = threading.Lock()
        self._queued: dict[Key, list[Item]] = {}
        self._count = 0
        self._dropped = 0

    def put(self, key: Key, items: Sequence[Item]) -> None:
        """Add items; beyond the bound, the newest are dropped, which is logged."""
        with self._lock:
            room = max(MOST_QUEUED - self._count, 0)
            if room:
                self._queued.setdefault(key, []).extend(items[:room])
            self._count += min(len(items), room)
            self._dropped += max(len(items) - room, 0)

    def take(self) -> dict[Key, list[Item]] | None:
        """Return all items, and empty the backlog; None while they may not be sent."""
        if not self._may_send():
            return None
        with self._lock:
            queued, self._queued, self._count = self._queued, {}, 0
            dropped, self._dropped = self._dropped, 0
        if dropped:
            log.warning(
                "%d %s were dropped: more than %d were waiting", dropped, self._what, MOST_QUEUED
            )
        return queued

    def send(self, key: Key, items: Sequence[Item], send: Callable[[Sequence[Item]], None]) -> None:
        """Send items. Refused items are dropped, which is logged; after a failure, items are queued again."""
        try:
            send(items)
        except AwsError as error:
            if error.status >= 500:
                self.put(key, items)
            log.warning("%d %s of %s could not be sent: %s", len(items), self._what, key, error)
        except Exception:
            log.exception("%d %s of %s are lost", len(items), self._what, key)


class MetricQueue:
    """Takes metrics at once and sends them to CloudWatch later: a `MetricSink` and a `Worker`."""

    name = "metrics"

    def __init__(self, control: ControlPlane, may_send: Callable[[], bool] = lambda: True) -> None:
        self._control = control
        self._backlog = _Backlog[tuple[str, str, str], Metric]("metric values", may_send)
        # Sees the metrics of every account at once; must not block.
        self.watch: Callable[[Sequence[Metric], str, str], None] | None = None

    def put(self, metrics: Sequence[Metric], *, account: str, region: str) -> None:
        """See `MetricSink.put`."""
        if self.watch is not None:
            self.watch(metrics, account, region)
        for namespace, group in itertools.groupby(metrics, lambda metric: metric.namespace):
            self._backlog.put((account, region, namespace), list(group))

    def step(self) -> float:
        """Send the queued items, if sending is allowed."""
        waiting = self._backlog.take()
        if waiting is None:
            return LOOK_AGAIN_S
        for key, metrics in waiting.items():
            for start in range(0, len(metrics), METRICS_PER_CALL):
                part = metrics[start : start + METRICS_PER_CALL]
                self._backlog.send(key, part, functools.partial(self._send, key))
        return FLUSH_METRICS_EVERY_S

    def _send(self, key: tuple[str, str, str], metrics: Sequence[Metric]) -> None:
        account, region, namespace = key
        data = [_datum(metric) for metric in metrics]
        params = {"Namespace": namespace, "MetricData": data}
        self._control.call("cloudwatch", "PutMetricData", params, account=account, region=region)


def _datum(metric: Metric) -> dict[str, Any]:
    datum: dict[str, Any] = {
        "MetricName": metric.name,
        "Unit": metric.unit,
        "Timestamp": datetime.fromtimestamp(metric.timestamp_ms / 1000, UTC),
        "Dimensions": [{"Name": name, "Value": value} for name, value in metric.dimensions],
    }
    if metric.statistics is None:
        return {**datum, "Value": metric.value}
    names = ("SampleCount", "Sum", "Minimum", "Maximum")
    return {**datum, "StatisticValues": dict(zip(names, metric.statistics, strict=True))}


class LogQueue:
    """Takes log lines at once and sends them to CloudWatch Logs later: a `LogSink` and a `Worker`."""

    name = "logs"

    def __init__(self, control: ControlPlane, may_send: Callable[[], bool] = lambda: True) -> None:
        self._control = control
        self._backlog = _Backlog[tuple[str, str, str, str], LogLine]("log lines", may_send)
        # The groups and streams that are known to exist.
        self._known: set[tuple[str, ...]] = set()

    def put(
        self, group: str, stream: str, lines: Sequence[LogLine], *, account: str, region: str
    ) -> None:
        """See `LogSink.put`."""
        self._backlog.put((account, region, group, stream), lines)

    def step(self) -> float:
        """Send the queued items, if sending is allowed."""
        waiting = self._backlog.take()
        if waiting is None:
            return LOOK_AGAIN_S
        for key, lines in waiting.items():
            lines.sort(key=lambda line: line.timestamp_ms)
            for part in _log_batches(lines):
                self._backlog.send(key, part, functools.partial(self._send, key))
        return FLUSH_LOGS_EVERY_S

    def _send(self, key: tuple[str, str, str, str], lines: Sequence[LogLine]) -> None:
        account, region, group, stream = key
        params = {
            "logGroupName": group,
            "logStreamName": stream,
            "logEvents": [
                {"timestamp": line.timestamp_ms, "message": line.message} for line in lines
            ],
        }
        try:
            self._make(account, region, group, stream)
            self._control.call("logs", "PutLogEvents", params, account=account, region=region)
        except AwsError as error:
            if error.code != "ResourceNotFoundException":
                raise
            # The group was deleted meanwhile, as by `cdk destroy`: create it again, as AWS does.
            self._known.clear()
            self._make(account, region, group, stream)
            self._control.call("logs", "PutLogEvents", params, account=account, region=region)

    def _make(self, account: str, region: str, group: str, stream: str) -> None:
        for operation, params in (
            ("CreateLogGroup", {"logGroupName": group}),
            ("CreateLogStream", {"logGroupName": group, "logStreamName": stream}),
        ):
            key = (account, region, operation, *params.values())
            if key in self._known:
                continue
            try:
                self._control.call("logs", operation, params, account=account, region=region)
            except AwsError as error:
                if error.code != "ResourceAlreadyExistsException":
                    raise
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known.add(key)


def _log_batches(lines: Sequence[LogLine]) -> Generator[Sequence[LogLine]]:
    """Yield batches of lines within the limits of one PutLogEvents, in number and in bytes."""
    start = size_bytes = 0
    for n, line in enumerate(lines):
        line_bytes = len(line.message) * 4 if not line.message.isascii() else len(line.message)
        line_bytes += LOG_EVENT_BYTES
        is_full = n - start >= LOG_EVENTS_PER_CALL or size_bytes + line_bytes > LOG_BYTES_PER_CALL
        if is_full and n > start:
            yield lines[start:n]
            start, size_bytes = n, 0
        size_bytes += line_bytes
    if start < len(lines):
        yield lines[start:]
