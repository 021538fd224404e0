"""CloudWatch's metric streams: each ended minute of each metric goes to a Firehose delivery stream, as JSON lines.

Documented: docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch-metric-streams-formats-json.html. Like the
metrics themselves, a minute that has not ended is in memory only. Percentiles of `StatisticsConfigurations` are stored
and not computed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from headrace.core.arn import Arn, InvalidArn, make_arn
from headrace.core.clock import Clock
from headrace.deliveries.outbox import OUTBOX, Delivery
from headrace.deliveries.schedule_worker import LoadedState
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage import pickles
from headrace.moto.storage.changes import CHANGES, MOTO_LOCK

_STREAMS = "metric_streams"
MINUTES = "metric_stream_minutes"
_MINUTE_MS = 60_000
# headrace's own metrics of a minute arrive until some seconds after its end.
_GRACE_MS = 15_000
_LOOK_EVERY_S = 5.0
# The size of a record that Firehose gets: the JSON lines of many metrics (documented); its limit is 1,000 KiB.
_RECORD_BYTES = 500_000
_STORED = (
    "IncludeFilters",
    "ExcludeFilters",
    "FirehoseArn",
    "RoleArn",
    "OutputFormat",
    "StatisticsConfigurations",
    "IncludeLinkedAccountsMetrics",
)
_LISTED = ("Arn", "CreationDate", "LastUpdateDate", "Name", "FirehoseArn", "State", "OutputFormat")


def _streams_of(backend: Any) -> dict[str, dict[str, Any]]:
    # An account without streams has no member for them, so that looking for one changes nothing that is stored.
    return vars(backend).get(_STREAMS, {})


def _take_stream(backend: Any, name: str) -> dict[str, Any] | None:
    stream = _streams_of(backend).pop(name, None)
    if not _streams_of(backend):
        vars(backend).pop(_STREAMS, None)
    return stream


def _put_metric_stream(self: Any) -> Any:
    from moto.core.responses import ActionResult

    backend, name = self.cloudwatch_backend, self._get_param("Name")
    members = {key: self._get_param(key) for key in _STORED if self._get_param(key) is not None}
    _check(members)
    now = datetime.fromtimestamp(CURRENT.clock.now_ms() / 1000, UTC)
    old = _streams_of(backend).get(name)
    scope = str(backend.region_name), str(backend.account_id)
    stream = {
        "Name": name,
        "Arn": make_arn("cloudwatch", *scope, f"metric-stream/{name}"),
        "State": old["State"] if old else "running",
        "CreationDate": old["CreationDate"] if old else now,
        "LastUpdateDate": now,
        "IncludeLinkedAccountsMetrics": False,
        **members,
    }
    vars(backend).setdefault(_STREAMS, {})[name] = stream
    # Of an existing stream, tags are changed by their own calls (documented).
    if old is None and (tags := self._get_param("Tags")):
        backend.tagger.tag_resource(stream["Arn"], tags)
    return ActionResult({"Arn": stream["Arn"]})


def _get_metric_stream(self: Any) -> Any:
    from moto.cloudwatch.exceptions import ResourceNotFoundException
    from moto.core.responses import ActionResult

    stream = _streams_of(self.cloudwatch_backend).get(self._get_param("Name"))
    if stream is None:
        raise ResourceNotFoundException()
    return ActionResult(dict(stream))


def _list_metric_streams(self: Any) -> Any:
    from moto.core.responses import ActionResult

    streams = _streams_of(self.cloudwatch_backend)
    names = sorted(streams)
    start = int(self._get_param("NextToken") or 0)
    end = start + int(self._get_param("MaxResults") or 500)
    rows = [{key: streams[name][key] for key in _LISTED} for name in names[start:end]]
    more = {"NextToken": str(end)} if end < len(names) else {}
    return ActionResult({"Entries": rows, **more})


def _change_states(self: Any, state: str) -> Any:
    from moto.core.responses import EmptyResult

    streams = _streams_of(self.cloudwatch_backend)
    for name in self._get_param("Names") or ():
        if name in streams:
            streams[name] = {**streams[name], "State": state}
    return EmptyResult()


def _start_metric_streams(self: Any) -> Any:
    return _change_states(self, "running")


def _stop_metric_streams(self: Any) -> Any:
    return _change_states(self, "stopped")


def _delete_metric_stream(self: Any) -> Any:
    from moto.core.responses import EmptyResult

    backend = self.cloudwatch_backend
    stream = _take_stream(backend, self._get_param("Name"))
    if stream is not None:
        backend.tagger.delete_all_tags_for_resource(stream["Arn"])
    return EmptyResult()


_CALLS = {
    "put_metric_stream": _put_metric_stream,
    "get_metric_stream": _get_metric_stream,
    "list_metric_streams": _list_metric_streams,
    "start_metric_streams": _start_metric_streams,
    "stop_metric_streams": _stop_metric_streams,
    "delete_metric_stream": _delete_metric_stream,
}


def add_calls(module: Any) -> None:
    """Add the calls of metric streams."""
    for name, call in _CALLS.items():
        setattr(module.CloudWatchResponse, name, call)


def _check(members: Mapping[str, Any]) -> None:
    """Raise moto's errors for settings that AWS refuses, and for formats that headrace does not write."""
    from moto.cloudwatch.exceptions import InvalidParameterCombination, InvalidParameterValue

    if members.get("IncludeFilters") and members.get("ExcludeFilters"):
        raise InvalidParameterCombination(
            "A metric stream takes IncludeFilters or ExcludeFilters, not both."
        )
    if members.get("OutputFormat") != "json":
        raise InvalidParameterValue(
            f"headrace writes metric streams as json, not as {members.get('OutputFormat')}."
        )
    try:
        arn = Arn.parse(str(members.get("FirehoseArn")))
    except InvalidArn:
        arn = None
    if arn is None or arn.service != "firehose" or not arn.resource.startswith("deliverystream/"):
        raise InvalidParameterValue("FirehoseArn must be the ARN of a Firehose delivery stream.")


@functools.cache
def patch() -> None:
    """Let moto's CloudWatch collect the minutes of its streams, and tag streams; called once."""
    from moto.cloudwatch.models import CloudWatchBackend

    backend: Any = CloudWatchBackend
    put, tag = backend.put_metric_data, backend.tag_resource

    @functools.wraps(put)
    def put_metric_data(self: Any, namespace: str, metric_data: list[dict[str, Any]]) -> None:
        put(self, namespace, metric_data)
        if any(stream["State"] == "running" for stream in _streams_of(self).values()):
            for member in metric_data:
                _collect(vars(self).setdefault(MINUTES, {}), namespace, member)

    @functools.wraps(tag)
    def tag_resource(self: Any, arn: str, tags: dict[str, str]) -> None:
        if any(stream["Arn"] == arn for stream in _streams_of(self).values()):
            self.tagger.tag_resource(arn, self.tagger.convert_dict_to_tags_input(tags))
        else:
            tag(self, arn, tags)

    backend.put_metric_data, backend.tag_resource = put_metric_data, tag_resource


def _collect(minutes: dict[Any, list[float]], namespace: str, member: Mapping[str, Any]) -> None:
    """Add a metric's data to its minute: count, sum, minimum, maximum."""
    time = member.get("Timestamp")
    at_ms = CURRENT.clock.now_ms() if time is None else _milliseconds(time)
    dimensions = tuple(sorted((d["Name"], d["Value"]) for d in member.get("Dimensions") or ()))
    unit = member.get("Unit") or "None"
    key = (at_ms - at_ms % _MINUTE_MS, namespace, member["MetricName"], dimensions, unit)
    for count, total, low, high in _parts(member):
        known = minutes.setdefault(key, [0.0, 0.0, math.inf, -math.inf])
        minutes[key] = [
            known[0] + count,
            known[1] + total,
            min(known[2], low),
            max(known[3], high),
        ]


def _milliseconds(time: datetime) -> int:
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _parts(member: Mapping[str, Any]) -> Iterator[tuple[float, float, float, float]]:
    statistics = member.get("StatisticValues")
    if statistics:
        names = ("SampleCount", "Sum", "Minimum", "Maximum")
        count, total, low, high = (float(statistics[name]) for name in names)
        yield count, total, low, high
        return
    values: Sequence[Any] = member.get("Values") or [member.get("Value", 0)]
    counts: Sequence[Any] = member.get("Counts") or [1] * len(values)
    for value, count in zip(values, counts, strict=True):
        yield float(count), float(value) * float(count), float(value), float(value)


class MetricStreams:
    """A `Worker` that sends the minutes that have ended. It sleeps while no stream runs."""

    PACKAGES = ("cloudwatch",)

    name = "metric streams"

    def __init__(self, state: LoadedState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def step(self) -> float:
        """Send the minutes that have ended."""
        if not self._state.is_loaded():
            return math.inf
        ended_ms = self._clock.now_ms() - _MINUTE_MS - _GRACE_MS
        with MOTO_LOCK:
            CHANGES.load_deferred("cloudwatch")
            backends = [b for b in pickles.backends_of("cloudwatch").values() if _streams_of(b)]
            due = [b for b in backends if any(k[0] <= ended_ms for k in vars(b).get(MINUTES, ()))]
        if due:
            self._state.change(lambda: _send_all(due, ended_ms))
        return _LOOK_EVERY_S if backends else math.inf


def _send_all(backends: list[Any], ended_ms: int) -> None:
    for backend in backends:
        _send(backend, ended_ms)


def _send(backend: Any, ended_ms: int) -> None:
    """Hand a backend's ended minutes to its running streams."""
    minutes: dict[Any, list[float]] = vars(backend)[MINUTES]
    ended = {key: minutes.pop(key) for key in sorted(minutes) if key[0] <= ended_ms}
    for stream in _streams_of(backend).values():
        if stream["State"] != "running":
            continue
        lines = [
            _line(backend, stream, key, values)
            for key, values in ended.items()
            if _is_wanted(stream, key[1], key[2])
        ]
        for part in _chunks(lines):
            arn = Arn.parse(stream["FirehoseArn"])
            OUTBOX.add(
                Delivery(
                    what=f"Metrics of {stream['Arn']} for {arn}",
                    body=part,
                    service="firehose",
                    operation="PutRecord",
                    params={"DeliveryStreamName": arn.name, "Record": {"Data": part}},
                    account=arn.account,
                    region=arn.region,
                    acting_arn=stream["RoleArn"],
                    acting_session="CloudWatch",
                )
            )


def _is_wanted(stream: Mapping[str, Any], namespace: str, name: str) -> bool:
    def names(filters: Sequence[Mapping[str, Any]]) -> bool:
        return any(
            one["Namespace"] == namespace
            and (not one.get("MetricNames") or name in one["MetricNames"])
            for one in filters
        )

    if stream.get("IncludeFilters"):
        return names(stream["IncludeFilters"])
    return not names(stream.get("ExcludeFilters") or ())


def _line(backend: Any, stream: Mapping[str, Any], key: Any, values: Sequence[float]) -> bytes:
    at_ms, namespace, name, dimensions, unit = key
    count, total, low, high = values
    metric = {
        "metric_stream_name": stream["Name"],
        "account_id": str(backend.account_id),
        "region": str(backend.region_name),
        "namespace": namespace,
        "metric_name": name,
        "dimensions": dict(dimensions),
        "timestamp": at_ms,
        "value": {"max": high, "min": low, "sum": total, "count": count},
        "unit": unit,
    }
    return json.dumps(metric, separators=(",", ":")).encode() + b"\n"


def _chunks(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the lines in records that Firehose takes."""
    record = bytearray()
    for line in lines:
        if record and len(record) + len(line) > _RECORD_BYTES:
            yield bytes(record)
            record.clear()
        record += line
    if record:
        yield bytes(record)
