"""Sends metrics to CloudWatch and log lines to CloudWatch Logs, in batches and in the background.

`ServiceMetrics` measures what queues, topics, rules, tables and state machines do.
"""

from __future__ import annotations

import functools
import logging
import operator
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from headrace.aws.calls.errors import AwsError
from headrace.core.clock import Clock
from headrace.core.ports import CallerIdentity, ControlPlane, LogLine, Metric, MetricSink
from headrace.moto.current_cloud import Handled
from headrace.moto.storage import pickles
from headrace.moto.storage.changes import MOTO_LOCK

log = logging.getLogger(__name__)

FLUSH_LOGS_EVERY_S = 0.5
FLUSH_METRICS_EVERY_S = 5.0
# The delay between steps while sending is not allowed.
LOOK_AGAIN_S = 2.0
METRICS_PER_CALL = 1000
# The limit of PutMetricData: the different values of one datum.
VALUES_PER_DATUM = 150
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
            room = MOST_QUEUED - self._count
            taken = items if len(items) <= room else items[: max(room, 0)]
            if taken:
                queued = self._queued.get(key)
                if queued is None:
                    queued = self._queued[key] = []
                queued += taken
                self._count += len(taken)
            self._dropped += len(items) - len(taken)

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
        """Send items. Refused items are dropped, which is logged; what may pass is queued again."""
        try:
            send(items)
        except AwsError as error:
            if error.may_pass:
                self.put(key, items)
            log.warning("%d %s of %s could not be sent: %s", len(items), self._what, key, error)
        except Exception:
            log.exception("%d %s of %s are lost", len(items), self._what, key)


_namespace_of = operator.attrgetter("namespace")


class MetricQueue:
    """Takes metrics at once and sends them to CloudWatch later: a `MetricSink` and a `Worker`.

    Args:
        watch: sees the metrics of every account at once; must not block.
    """

    name = "metrics"

    def __init__(
        self,
        control: ControlPlane,
        may_send: Callable[[], bool] = lambda: True,
        *,
        watch: Callable[[Sequence[Metric], str, str], None] | None = None,
    ) -> None:
        self._control = control
        self._backlog = _Backlog[tuple[str, str, str], Metric]("metric values", may_send)
        self._watch = watch

    def put(self, metrics: Sequence[Metric], *, account: str, region: str) -> None:
        """See `MetricSink.put`."""
        namespaces = dict.fromkeys(map(_namespace_of, metrics))
        for namespace in namespaces:
            group = metrics
            if len(namespaces) > 1:
                group = [metric for metric in metrics if metric.namespace == namespace]
            self._backlog.put((account, region, namespace), group)
        if self._watch is not None:
            self._watch(metrics, account, region)

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
        params = {"Namespace": namespace, "MetricData": list(_data(metrics))}
        self._control.call("cloudwatch", "PutMetricData", params, account=account, region=region)


# The metrics of what each resource does, by the ARN's service: the dimension, and the names for what was handled and
# what failed. Documented: "available CloudWatch metrics" of Amazon SQS, SNS, EventBridge, DynamoDB and Step Functions.
_HANDLED = {
    "sqs": ("AWS/SQS", "QueueName", ("NumberOfMessagesSent",), ()),
    "sns": ("AWS/SNS", "TopicName", ("NumberOfMessagesPublished",), ("NumberOfNotificationsFailed",)),
    "events": (
        "AWS/Events", "RuleName", ("TriggeredRules", "MatchedEvents", "Invocations"), ("FailedInvocations",),
    ),
    # An item that is written counts as one unit, whatever its size.
    "dynamodb": ("AWS/DynamoDB", "TableName", ("ConsumedWriteCapacityUnits",), ()),
}  # fmt: skip
_MINUTE_MS = 60_000
# The step at a minute's end may be so late.
_LATE_MS = 5_000
# Documented: metrics of a queue are sent for up to six hours after its last activity.
_QUEUE_IDLE_MS = 6 * 3_600_000


class ServiceMetrics:
    """A `Worker` that each minute measures what sends no metrics itself: queues, topics, rules, tables, state machines.

    Until moto's state is loaded it measures nothing, for nothing can happen to them before.
    """

    name = "service metrics"

    def __init__(
        self, is_loaded: Callable[[], bool], clock: Clock, handled: Handled, sink: MetricSink
    ) -> None:
        self._is_loaded, self._clock = is_loaded, clock
        self._handled, self._sink = handled, sink
        self._totals: dict[str, tuple[int, int]] = {}
        self._events: dict[tuple[str, str], float] = {}
        # When each queue last had a message or got one.
        self._active_ms: dict[str, int] = {}

    def step(self) -> float:
        """Send the metrics of the last minute."""
        now_ms = self._clock.now_ms()
        if self._is_loaded():
            measured: dict[tuple[str, str], list[Metric]] = defaultdict(list)
            minute_ms = (now_ms - _LATE_MS) // _MINUTE_MS * _MINUTE_MS
            for arn, name, value, unit in (*self._counts(now_ms), *self._depths(now_ms)):
                _, _, service, region, account, resource = arn.split(":", 5)
                namespace, dimension = _place_of(service, resource, arn)
                metric = Metric(namespace, name, value, unit, dimension, minute_ms)
                measured[account, region].append(metric)
            for (account, region), metrics in measured.items():
                self._sink.put(metrics, account=account, region=region)
        return (_MINUTE_MS - now_ms % _MINUTE_MS) / 1000

    def _counts(self, now_ms: int) -> Iterator[tuple[str, str, float, str]]:
        totals, events = self._handled.totals(), self._handled.events()
        for arn, (count, failed) in totals.items():
            service = arn.split(":", 3)[2]
            if service not in _HANDLED:
                continue
            count_before, failed_before = self._totals.get(arn, (0, 0))
            if count != count_before:
                self._active_ms[arn] = now_ms
            _, _, handled_names, failed_names = _HANDLED[service]
            for names, more in (
                (handled_names, _count_new(count, count_before)),
                (failed_names, _count_new(failed, failed_before)),
            ):
                if more:
                    yield from ((arn, name, float(more), "Count") for name in names)
        for (arn, name), count in events.items():
            if more := _count_new(count, self._events.get((arn, name), 0)):
                yield arn, name, float(more), "Count"
        self._totals, self._events = totals, events

    def _depths(self, now_ms: int) -> Iterator[tuple[str, str, float, str]]:
        with MOTO_LOCK:
            rows = [
                (str(queue.queue_arn), *queue.store.measure(now_ms))
                for backend in pickles.backends_of("sqs").values()
                for queue in backend.queues.values()
            ]
        self._active_ms = {arn: self._active_ms.get(arn, now_ms) for arn, *_ in rows}
        for arn, visible, in_flight, delayed, oldest_ms in rows:
            if visible or in_flight or delayed:
                self._active_ms[arn] = now_ms
            if now_ms - self._active_ms[arn] > _QUEUE_IDLE_MS:
                continue
            for name, count in (
                ("Visible", visible),
                ("NotVisible", in_flight),
                ("Delayed", delayed),
            ):
                yield arn, f"ApproximateNumberOfMessages{name}", float(count), "Count"
            age_s = 0 if oldest_ms is None else max(0, now_ms - oldest_ms) // 1000
            yield arn, "ApproximateAgeOfOldestMessage", float(age_s), "Seconds"


def _count_new(count: float, before: float) -> float:
    """Return what came since a count was `before`; one that is less was forgotten for want of room, and began anew."""
    return count - before if count >= before else count


def _place_of(service: str, resource: str, arn: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the namespace and the dimensions of a resource's metrics."""
    if service == "states":
        return "AWS/States", (("StateMachineArn", arn),)
    namespace, dimension, _, _ = _HANDLED[service]
    *buses, name = resource.removeprefix("rule/").removeprefix("table/").split("/")
    if not name:
        # What belongs to no table, but to the account.
        return namespace, ()
    # Rules of the default bus have no bus in their ARN.
    return namespace, (*(("EventBusName", bus) for bus in buses), (dimension, name))


def _data(metrics: Sequence[Metric]) -> Iterator[dict[str, Any]]:
    """Yield the data of metrics of one namespace; the values of one metric in one second share a datum.

    CloudWatch's control plane takes a datum of many values in a fraction of the time of as many data.
    """
    shared: dict[tuple[Any, ...], list[Metric]] = defaultdict(list)
    for metric in metrics:
        if metric.statistics is not None:
            names = ("SampleCount", "Sum", "Minimum", "Maximum")
            statistics = dict(zip(names, metric.statistics, strict=True))
            yield {**_head(metric), "StatisticValues": statistics}
        else:
            second = metric.timestamp_ms // 1000
            shared[metric.name, metric.unit, metric.dimensions, second].append(metric)
    for group in shared.values():
        head = _head(max(group, key=lambda metric: metric.timestamp_ms))
        if len(group) == 1:
            yield {**head, "Value": group[0].value}
            continue
        counts = Counter(metric.value for metric in group)
        values = list(counts)
        for start in range(0, len(values), VALUES_PER_DATUM):
            part = values[start : start + VALUES_PER_DATUM]
            yield {**head, "Values": part, "Counts": [float(counts[value]) for value in part]}


def _head(metric: Metric) -> dict[str, Any]:
    """Return what a datum says beside its values."""
    return {
        "MetricName": metric.name,
        "Unit": metric.unit,
        "Timestamp": datetime.fromtimestamp(metric.timestamp_ms / 1000, UTC),
        "Dimensions": [{"Name": name, "Value": value} for name, value in metric.dimensions],
    }


# Account, region, group, stream, who makes a missing group, and whether anybody does.
_LogKey = tuple[str, str, str, str, CallerIdentity | None, bool]


class LogQueue:
    """Takes log lines at once and sends them to CloudWatch Logs later: a `LogSink` and a `Worker`."""

    name = "logs"

    def __init__(self, control: ControlPlane, may_send: Callable[[], bool] = lambda: True) -> None:
        self._control = control
        self._backlog = _Backlog[_LogKey, LogLine]("log lines", may_send)
        # The groups and streams that are known to exist.
        self._known: set[tuple[str, ...]] = set()

    def put(
        self,
        group: str,
        stream: str,
        lines: Sequence[LogLine],
        *,
        account: str,
        region: str,
        acting: CallerIdentity | None = None,
        makes: bool = True,
    ) -> None:
        """See `LogSink.put`."""
        self._backlog.put((account, region, group, stream, acting, makes), lines)

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

    def _send(self, key: _LogKey, lines: Sequence[LogLine]) -> None:
        account, region, group, stream, _, makes = key
        params = {
            "logGroupName": group,
            "logStreamName": stream,
            "logEvents": [
                {"timestamp": line.timestamp_ms, "message": line.message} for line in lines
            ],
        }
        try:
            if makes:
                self._make(key)
            self._control.call("logs", "PutLogEvents", params, account=account, region=region)
        except AwsError as error:
            if not makes or error.code != "ResourceNotFoundException":
                raise
            # The group was deleted meanwhile, as by `cdk destroy`: create it again, as AWS does.
            self._known.clear()
            self._make(key)
            self._control.call("logs", "PutLogEvents", params, account=account, region=region)

    def _make(self, key: _LogKey) -> None:
        account, region, group, stream, acting, _ = key
        for operation, params in (
            ("CreateLogGroup", {"logGroupName": group}),
            ("CreateLogStream", {"logGroupName": group, "logStreamName": stream}),
        ):
            known = (account, region, operation, *params.values())
            if known in self._known:
                continue
            if acting and (
                operation != "CreateLogGroup" or self._has_group(group, account, region)
            ):
                # For a group that exists, nobody needs the permission to make one; who writes may make the stream.
                acting = None
            call = functools.partial(self._control.call, account=account, region=region)
            try:
                call("logs", operation, params, acting=acting)
            except AwsError as error:
                if error.code != "ResourceAlreadyExistsException":
                    raise
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known.add(known)

    def _has_group(self, group: str, account: str, region: str) -> bool:
        named = {"logGroupNamePrefix": group}
        answer = self._control.call(
            "logs", "DescribeLogGroups", named, account=account, region=region
        )
        # The groups come by their names: the prefix itself is the first.
        return any(found["logGroupName"] == group for found in answer["logGroups"])


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
