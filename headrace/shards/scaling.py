"""Looks, decides and acts: one step of the policy on one stream, on AWS as on headrace.

Measures a stream: reads a moment of each shard, and asks CloudWatch what the records do not show.

A look takes two requests per shard, and reads `sample_s` seconds of its records: of a full shard's 2 MiB/s of reads,
which its consumers share, that is `sample_s / (2 x period_s)`.
"""

from __future__ import annotations

import itertools
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.client.aggregation import MAGIC, disaggregate
from headrace.client.clock import Clock, SystemClock
from headrace.client.hash_keys import ShardRange, hash_key_of, list_all_shards, name_member
from headrace.shards.loads import KeySketch, Settings, StreamLoad, utilisation_of, weight_of
from headrace.shards.policy import (
    LEAST_RESHARD_S,
    Action,
    Decision,
    Merge,
    Policy,
    Resize,
    Split,
    name_of,
)

_THREADS = 16
# A full shard's second has 1 MiB, a page up to 10.
_MOST_PAGES = 4
_METRICS_PER_CALL = 500  # documented: API_GetMetricData
_MINUTE_S = 60
# Metrics of a minute come within the next two (assumed).
_METRICS_AGE_S = 180
_PASSING = ("ProvisionedThroughputExceededException", "LimitExceededException")
_THROTTLED, _AGE = "WriteProvisionedThroughputExceeded", "IteratorAgeMilliseconds"


@dataclass(slots=True)
class ShardSample:
    """What a moment of one shard had."""

    bytes_per_s: float = 0.0
    records_per_s: float = 0.0
    keys: KeySketch = field(default_factory=KeySketch)
    record_bytes: list[int] = field(default_factory=list[int])


class Sampler:
    """Looks at one stream. One thread at a time; it reads the shards with threads of its own."""

    def __init__(
        self,
        kinesis: Any,
        name_member: dict[str, str],
        clock: Clock,
        *,
        sample_s: float = 2.0,
        cloudwatch: Any = None,
    ) -> None:
        """Take a client of boto3, the member that names the stream, and how much of each shard is read.

        With a client of CloudWatch, throttles and iterator ages are looked up for streams that have these metrics by
        shard (EnableEnhancedMonitoring); full shards are known without them.
        """
        self._kinesis, self._name_member, self._clock = kinesis, name_member, clock
        self._sample_s, self._cloudwatch = sample_s, cloudwatch
        self._last: dict[str, ShardSample] = {}

    def summary(self) -> dict[str, Any]:
        """Return DescribeStreamSummary's description. Raises botocore's errors."""
        answer = self._kinesis.describe_stream_summary(**self._name_member)
        return answer["StreamDescriptionSummary"]

    def look(self) -> StreamLoad:
        """Return the load of the last moments. Raises botocore's errors.

        A shard whose reads are throttled keeps its last sample.
        """
        shards = self.open_shards()
        since_ms = self._clock.now_ms() - round(1000 * self._sample_s)
        with ThreadPoolExecutor(min(_THREADS, len(shards))) as pool:
            samples = list(pool.map(self._sample, shards, itertools.repeat(since_ms)))
        self._last = {s.shard_id: sample for s, sample in zip(shards, samples, strict=True)}
        throttled, ages = self._metrics(shards)
        used = [utilisation_of(s.bytes_per_s, s.records_per_s) for s in samples]
        return StreamLoad(
            shards=shards,
            utilisation=used,
            keys={shard_id: sample.keys for shard_id, sample in self._last.items()},
            throttled=throttled,
            iterator_age_ms=ages,
            bytes_per_s=sum(sample.bytes_per_s for sample in samples),
            records_per_s=sum(sample.records_per_s for sample in samples),
            record_bytes=[size for sample in samples for size in sample.record_bytes],
        )

    def open_shards(self) -> list[ShardRange]:
        """Return the open shards by their first hash key. Raises botocore's errors."""
        return [shard for shard, is_open in self.lineage() if is_open]

    def lineage(self) -> list[tuple[ShardRange, bool]]:
        """Return all shards that ListShards still names, each with whether it is open, by their first hash keys."""
        named = [
            (ShardRange.of(row), "EndingSequenceNumber" not in row["SequenceNumberRange"])
            for row in list_all_shards(self._kinesis, **self._name_member)
        ]
        return sorted(named, key=lambda item: (item[0].start, item[0].shard_id))

    def _sample(self, shard: ShardRange, since_ms: int) -> ShardSample:
        from botocore.exceptions import ClientError

        try:
            return self._read(shard.shard_id, since_ms)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") not in _PASSING:
                raise
            _LOG.warning("%s is not read now: %s", shard.shard_id, error)
            return self._last.get(shard.shard_id, ShardSample())

    def _read(self, shard_id: str, since_ms: int) -> ShardSample:
        kinesis, sample = self._kinesis, ShardSample()
        iterator: str | None = kinesis.get_shard_iterator(
            **self._name_member,
            ShardId=shard_id,
            ShardIteratorType="AT_TIMESTAMP",
            Timestamp=since_ms / 1000,
        )["ShardIterator"]
        covered_s = self._sample_s
        for _ in range(_MOST_PAGES):
            page: dict[str, Any] = kinesis.get_records(ShardIterator=iterator)
            records: list[Any] = page["Records"]
            sample.record_bytes += [_add(sample.keys, record) for record in records]
            iterator = page.get("NextShardIterator")
            if not page.get("MillisBehindLatest") or not iterator:
                break
            if records:
                last_ms = records[-1]["ApproximateArrivalTimestamp"].timestamp() * 1000
                covered_s = max(0.001, (last_ms - since_ms) / 1000)
                if covered_s >= self._sample_s:
                    break
        sample.bytes_per_s = sum(sample.record_bytes) / covered_s
        sample.records_per_s = len(sample.record_bytes) / covered_s
        return sample

    def _metrics(self, shards: list[ShardRange]) -> tuple[dict[str, float], dict[str, float]]:
        """Return throttled records per second and iterator ages by shard, of the last minute that CloudWatch has."""
        if self._cloudwatch is None:
            return {}, {}
        summary = self.summary()
        has = {name for m in summary["EnhancedMonitoring"] for name in m["ShardLevelMetrics"]}
        by_metric: dict[str, dict[str, float]] = {_THROTTLED: {}, _AGE: {}}
        names = [name for name in by_metric if name in has or "ALL" in has]
        queries = [(name, shard.shard_id) for name in names for shard in shards]
        end = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        for first in range(0, len(queries), _METRICS_PER_CALL):
            part = queries[first : first + _METRICS_PER_CALL]
            answer = self._cloudwatch.get_metric_data(
                StartTime=end - timedelta(seconds=_METRICS_AGE_S),
                EndTime=end,
                ScanBy="TimestampDescending",
                MetricDataQueries=[
                    _query(number, summary["StreamName"], name, shard_id)
                    for number, (name, shard_id) in enumerate(part)
                ],
            )
            for result in answer["MetricDataResults"]:
                name, shard_id = part[int(result["Id"][1:])]
                if result["Values"] and result["Values"][0] > 0:
                    by_metric[name][shard_id] = float(result["Values"][0])
        return {key: n / _MINUTE_S for key, n in by_metric[_THROTTLED].items()}, by_metric[_AGE]


def _query(number: int, stream: str, name: str, shard_id: str) -> dict[str, Any]:
    dimensions = [
        {"Name": "StreamName", "Value": stream},
        {"Name": "ShardId", "Value": shard_id},
    ]
    metric = {"Namespace": "AWS/Kinesis", "MetricName": name, "Dimensions": dimensions}
    statistic = "Sum" if name == _THROTTLED else "Maximum"
    return {
        "Id": f"m{number}",
        "MetricStat": {"Metric": metric, "Period": _MINUTE_S, "Stat": statistic},
    }


def _add(keys: KeySketch, record: dict[str, Any]) -> int:
    """Add a record to a sketch, an aggregate by its user records; return its bytes."""
    data, key = record["Data"], record.get("PartitionKey") or ""
    bytes_ = len(data) + len(key.encode())
    users = disaggregate(data) if data[:4] == MAGIC else None
    if not users:
        keys.add(hash_key_of(key), key, weight_of(bytes_))
        return bytes_
    # The record's own weight, shared out by the user records' bytes.
    share = weight_of(bytes_) / max(1, sum(len(user.data) + len(user.key) for user in users))
    for user in users:
        hash_key = hash_key_of(user.key) if user.explicit is None else int(user.explicit)
        keys.add(hash_key, user.key, share * (len(user.data) + len(user.key)))
    return bytes_


_LOG = logging.getLogger("headrace.shards")
_LONGEST_PAUSE_S = 1.0
# AWS reshards a stream step by step: these mean "not now".
_LATER = frozenset({"ResourceInUseException", "LimitExceededException"})
# Somebody else has resharded since the look.
_CHANGED = frozenset({"InvalidArgumentException", "ResourceNotFoundException"})


@dataclass(frozen=True, slots=True)
class Report:
    """What a step saw and did.

    Attributes:
        load: what it saw; None: the stream was being changed, and nothing was done.
        decision: what the policy said.
        done: the actions that the stream took.
    """

    load: StreamLoad | None = None
    decision: Decision = field(default_factory=Decision)
    done: tuple[Action, ...] = ()


class Resharder:
    """Splits, merges and resizes one stream, and waits until it is ACTIVE again."""

    def __init__(self, kinesis: Any, name_member: dict[str, str], clock: Clock) -> None:
        """Take a client of boto3, and the member that names the stream."""
        self._kinesis, self._name_member, self._clock = kinesis, name_member, clock

    def act(self, action: Action) -> None:
        """Ask for an action. Raises botocore's errors."""
        kinesis, name = self._kinesis, self._name_member
        match action:
            case Split():
                at = str(action.at)
                kinesis.split_shard(**name, ShardToSplit=action.shard_id, NewStartingHashKey=at)
            case Merge():
                pair = {
                    "ShardToMerge": action.shard_id,
                    "AdjacentShardToMerge": action.adjacent_id,
                }
                kinesis.merge_shards(**name, **pair)
            case Resize():
                kinesis.update_shard_count(
                    **name, TargetShardCount=action.count, ScalingType="UNIFORM_SCALING"
                )

    def wait_until_active(self, within_s: float) -> bool:
        """Wait until the stream takes the next action; return whether it does. Raises botocore's errors."""
        deadline_s = self._clock.monotonic_s() + within_s
        pause_s = LEAST_RESHARD_S
        while True:
            answer = self._kinesis.describe_stream_summary(**self._name_member)
            if answer["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE":
                return True
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0:
                return False
            pause(self._clock, min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class Scaler:
    """The policy at work on one stream. One thread at a time."""

    def __init__(
        self,
        kinesis: Any,
        stream: str,
        settings: Settings,
        *,
        sample_s: float = 2.0,
        cloudwatch: Any = None,
        clock: Clock | None = None,
    ) -> None:
        """Take a client of boto3, and a stream's name or ARN; see `Sampler` for the rest."""
        name = name_member(stream)
        self._stream, self._clock = stream, clock or SystemClock()
        sample_s = min(sample_s, settings.period_s)
        self._sampler = Sampler(
            kinesis, name, self._clock, sample_s=sample_s, cloudwatch=cloudwatch
        )
        self._resharder = Resharder(kinesis, name, self._clock)
        self._policy = Policy(settings)
        self._is_on_demand_said = False

    def step(self) -> Report:
        """Look, decide and act once; it takes at most a period longer than the last request.

        What AWS does not take now is logged and left to the next step. Raises botocore's errors that will not pass,
        such as a stream or a permission that is missing.
        """
        began_s, period_s = self._clock.monotonic_s(), self._policy.settings.period_s
        summary = self._sampler.summary()
        if summary["StreamStatus"] != "ACTIVE":
            return Report()
        if summary.get("StreamModeDetails", {}).get("StreamMode") == "ON_DEMAND":
            raise ValueError(f"{self._stream} is on demand: AWS alone changes its shards")
        load = self._sampler.look()
        decision = self._policy.decide(self._clock.monotonic_s(), load)
        for advice in decision.advice:
            _LOG.warning("%s: %s", self._stream, advice.sentence)
        done: list[Action] = []
        for action in decision.actions:
            left_s = began_s + period_s - self._clock.monotonic_s()
            if (done and left_s <= 0) or not self._take(action, max(left_s, 1.0)):
                break
            done.append(action)
        return Report(load, decision, tuple(done))

    def _take(self, action: Action, within_s: float) -> bool:
        """Act, and wait until it is done; return whether another action may follow."""
        from botocore.exceptions import ClientError

        began_s = self._clock.monotonic_s()
        try:
            self._resharder.act(action)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            if code not in _LATER and code not in _CHANGED:
                raise
            _LOG.warning(
                "%s: %s is left to the next look: %s", self._stream, name_of(action), error
            )
            return False
        _LOG.info("%s: %s", self._stream, name_of(action))
        is_active = self._resharder.wait_until_active(within_s)
        self._policy.note_reshard(self._clock.monotonic_s() - began_s)
        # Five calls per second and account; others reshard too.
        pause(self._clock, LEAST_RESHARD_S)
        return is_active


def pause(clock: Clock, seconds: float) -> None:
    """Wait."""
    condition = threading.Condition()
    with condition:
        clock.wait(condition, seconds)
