"""`CloudAccount` and `CloudMeter`: this cloud's own account, in process, and the figures of its resources.

What Spark says of a job's streaming queries in its event log: micro-batches, watermark, state rows, rates.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn
from headrace.core.clock import Clock
from headrace.core.ports import (
    AtSequence,
    ControlPlane,
    Metric,
    Position,
    ShardNotFound,
    StreamNotFound,
)
from headrace.core.values import as_mapping
from headrace.dashboard.account import CallRefused
from headrace.dashboard.inventory import Inventory, id_of
from headrace.dashboard.sampler import Totals
from headrace.services.firehose.backend import Firehose
from headrace.services.firehose.sources import END, position_of
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.state import Shard
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.mappings.mapping import Checkpoint
from headrace.services.lambda_.mappings.mapping import Mapping as EventSourceMapping
from headrace.services.pipes.pipes import Pipes
from headrace.spark_submit.configuration import event_logs
from headrace.store.sequence import InvalidSequence

# moto's services; before moto is loaded, the page does not wait for it.
_MOTO = frozenset({"apigateway", "apigatewayv2", "sqs", "sns", "pipes", "events", "dynamodb"})
_HANDLING = frozenset({"queue", "topic", "rule", "table"})
# The upper bounds of the duration histogram, in milliseconds.
DURATION_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)


class CloudAccount:
    """This cloud's account; see `Account`. Every operation runs in process as the account itself."""

    source, is_read_only = "headrace", False

    def __init__(
        self, control: ControlPlane, account_id: str, region: str, is_ready: Callable[[], bool]
    ) -> None:
        """Take the gateway, and what tells whether moto is loaded."""
        self.account_id, self.region = account_id, region
        self._control = control
        self._is_ready = is_ready

    def call(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        """See `Account.call`."""
        if service in _MOTO and not self._is_ready():
            raise CallRefused(service, operation, "Starting", f"{service} is still being loaded.")
        try:
            return self._control.call(
                service, operation, params, account=self.account_id, region=self.region
            )
        except AwsError as error:
            raise CallRefused(
                service, operation, error.code, error.message, error.status
            ) from error


def _function_of(dimensions: tuple[tuple[str, str], ...]) -> str:
    """Return the function that metrics with these dimensions measure; "" when it is not one alone."""
    return dimensions[0][1] if [name for name, _ in dimensions] == ["FunctionName"] else ""


class FunctionTotals:
    """Sums Lambda's metrics by function as they are sent. Thread-safe; never blocks long."""

    def __init__(self, account_id: str, region: str) -> None:
        self._where = (account_id, region)
        self._lock = threading.Lock()
        self._sums: dict[str, Counter[str]] = defaultdict(Counter)
        self._durations: dict[str, Counter[int]] = defaultdict(Counter)

    def note(self, metrics: Sequence[Metric], account: str, region: str) -> None:
        """Add the metrics of functions."""
        if (account, region) != self._where or not metrics:
            return
        last, function, sums = None, "", Counter[str]()  # those of an invocation are the same
        with self._lock:
            for namespace, name, value, _, dimensions, _, _ in metrics:
                if namespace != "AWS/Lambda":
                    continue
                if dimensions is not last:
                    last, function = dimensions, _function_of(dimensions)
                    sums = self._sums[function] if function else Counter[str]()
                if value:
                    sums[name] += round(value)
                if function and name == "Duration":
                    at = bisect_left(DURATION_BOUNDS_MS, value)
                    bound = DURATION_BOUNDS_MS[at] if at < len(DURATION_BOUNDS_MS) else 900_000
                    self._durations[function][bound] += 1

    def of(self, name: str) -> tuple[Counter[str], Counter[int]]:
        """Return a function's sums by metric, and how many invocations lasted up to each bound."""
        with self._lock:
            return Counter(self._sums.get(name)), Counter(self._durations.get(name))


class CloudMeter:
    """Reads counters and positions that the services keep anyway: requests do nothing for it. See `Meter`."""

    def __init__(
        self,
        account: CloudAccount,
        clock: Clock,
        *,
        kinesis: Kinesis,
        lambda_: Lambda,
        firehose: Firehose,
        pipes: Pipes,
        functions: FunctionTotals,
        handled: Callable[[], dict[str, tuple[int, int]]],
        queries: Callable[[str, str], list[dict[str, Any]]],
    ) -> None:
        """Take the services, and what returns figures of others.

        `handled` returns, by ARN, what rules, topics, queues and tables handled and failed; `queries` what Spark says
        of a job, see `streaming_queries`.
        """
        self._queries = queries
        self._account, self._handled = account, handled
        self._clock = clock
        self._kinesis, self._lambda, self._firehose = kinesis, lambda_, firehose
        self._pipes, self.functions = pipes, functions

    def totals(self, inventory: Inventory) -> Mapping[str, Totals]:
        """See `Meter.totals`."""
        totals: dict[str, Totals] = {}
        for stream in list(self._kinesis.streams.values()):
            if self._is_ours(stream):
                shards = [_of_shard(shard) for shard in stream.shards]
                totals[f"stream:{stream.name}"] = Totals(
                    sum(shard.records or 0 for shard in shards),
                    sum(shard.size_bytes or 0 for shard in shards),
                )
        for mapping, checkpoints in self._lambda.mappings.positions():
            if self._is_ours(mapping):
                totals[f"mapping:{mapping.uuid}"] = self._of_mapping(mapping, checkpoints)
        for (account, region, name), delivery in self._firehose.deliveries():
            if (account, region) == (self._account.account_id, self._account.region):
                totals[f"delivery:{name}"] = _of_delivery(delivery.figures())
        for arn, (moved, problem) in self._pipes.figures().items():
            if arn.split(":")[3:5] == [self._account.region, self._account.account_id]:
                totals[id_of(arn)] = Totals(moved, problem=problem)
        self._add_readers_of_kinesis(totals)
        self._add_handled(totals, inventory)
        return totals

    def _add_readers_of_kinesis(self, totals: dict[str, Totals]) -> None:
        for order in self._kinesis.channels.all():
            figures = self._kinesis.channels.status_of_delivery(order)
            if figures is not None and self._is_ours(order):
                totals[f"channel:{order.name}"] = _of_delivery(figures)
        now_ms = self._clock.now_ms()
        for opened in self._kinesis.queues.all():
            if self._is_ours(opened.queue):
                waiting = opened.deliveries.counts(now_ms).visible
                totals[f"kinesis queue:{opened.queue.name}"] = Totals(waiting=waiting)

    def _add_handled(self, totals: dict[str, Totals], inventory: Inventory) -> None:
        handled = self._handled()
        for resource in inventory.resources.values():
            if resource.kind == "function":
                sums, _ = self.functions.of(resource.name)
                totals[resource.id] = Totals(sums["Invocations"], errors=sums["Errors"])
            elif resource.kind == "job" and resource.state == "RUNNING":
                queries = self._queries(*resource.name.split("/", 1))
                totals[resource.id] = Totals(rate=rate_of(queries, self._clock.now_ms()))
            elif resource.kind in _HANDLING:
                records, errors = handled.get(resource.arn, (0, 0))
                waiting = resource.facts.get("messages")
                totals[resource.id] = Totals(records, errors=errors, waiting=waiting)

    def shard_totals(self, stream: str) -> Mapping[str, Totals]:
        """See `Meter.shard_totals`."""
        for one in list(self._kinesis.streams.values()):
            if one.name == stream and self._is_ours(one):
                return {shard.shard_id: _of_shard(shard) for shard in one.open_shards}
        return {}

    def counts_over_time(self, stream: str, from_ms: int, to_ms: int, steps: int) -> list[int]:
        """Return how many stored records of a stream arrived in each of `steps` equal spans."""
        by_shard = self.counts_by_shard(stream, from_ms, to_ms, steps).values()
        return [sum(column) for column in zip(*by_shard, strict=True)] or [0] * steps

    def counts_by_shard(
        self, stream: str, from_ms: int, to_ms: int, steps: int
    ) -> dict[str, list[int]]:
        """Return the same by shard id, of the shards that have any; looks up an index for each span."""
        counts: dict[str, list[int]] = {}
        for one in list(self._kinesis.streams.values()):
            if one.name != stream or not self._is_ours(one):
                continue
            for shard in one.shards:
                if shard.log is None or (shard.closed_ms or to_ms) < from_ms:
                    continue
                edges = [
                    shard.log.index_at(from_ms + (to_ms - from_ms) * step // steps)
                    for step in range(steps + 1)
                ]
                row = [max(0, after - before) for before, after in pairwise(edges)]
                if any(row):
                    counts[shard.shard_id] = row
        return counts

    def positions(self, stream: str, consumer: str) -> dict[str, dict[str, Any]]:
        """Return, by shard id, how many records wait for a consumer of a stream and how old the oldest of them is.

        A consumer is `mapping:UUID`, `delivery:NAME`, `channel:NAME` or `fan-out:NAME`; others have no positions here.
        """
        kind, _, name = consumer.partition(":")
        if kind == "mapping":
            for mapping, checkpoints in self._lambda.mappings.positions():
                if mapping.uuid == name:
                    return {
                        shard_id: {"waiting": waiting, "lagMs": self._age(oldest_ms)}
                        for shard_id, _, waiting, oldest_ms in self._shards_of(mapping, checkpoints)
                    }
        rows: dict[str, dict[str, Any]] = {}
        for shard_id, position in self._read_up_to(stream, kind, name).items():
            row = self.behind(stream, shard_id, position)
            if row is not None:
                rows[shard_id] = row
        return rows

    def _read_up_to(self, stream: str, kind: str, name: str) -> Mapping[str, Position]:
        """Return the position by shard of a delivery, a channel, or an enhanced fan-out consumer that is subscribed."""
        if kind == "fan-out":
            return {
                shard_id: AtSequence(number)
                for one, consumer, shard_id, number in self._kinesis.subscriptions.positions()
                if self._is_ours(one) and (one.name, consumer) == (stream, name)
            }
        texts: Any = {}
        if kind == "channel":
            for order in self._kinesis.channels.all():
                if self._is_ours(order) and order.name == name:
                    texts = (self._kinesis.channels.status_of_delivery(order) or {}).get(
                        "positions", {}
                    )
        if kind == "delivery":
            key = (self._account.account_id, self._account.region, name)
            for at, delivery in self._firehose.deliveries():
                if at == key:
                    texts = delivery.positions()
        return {shard_id: position_of(text) for shard_id, text in texts.items() if text != END}

    def behind(self, stream: str, shard_id: str, position: Position) -> dict[str, Any] | None:
        """Return how many records of a shard wait at a position, and the oldest one's age; None for a foreign one."""
        arn = make_arn(
            "kinesis", self._account.region, self._account.account_id, f"stream/{stream}"
        )
        try:
            _, waiting, oldest_ms = self._kinesis.reader.progress(arn, shard_id, position)
        except (ShardNotFound, StreamNotFound, InvalidSequence, AwsError):
            return None
        return {"waiting": waiting, "lagMs": self._age(oldest_ms)}

    def _of_mapping(
        self, mapping: EventSourceMapping, checkpoints: Mapping[str, Checkpoint]
    ) -> Totals:
        handled = waiting = lag_ms = 0
        is_stream = False
        for _, index, count, oldest_ms in self._shards_of(mapping, checkpoints):
            is_stream = True
            handled += index
            waiting += count
            lag_ms = max(lag_ms, self._age(oldest_ms))
        result = mapping.last_result
        problem = result if result.startswith("PROBLEM") else ""
        if not is_stream:
            return Totals(mapping.handed, errors=mapping.dropped, problem=problem)
        return Totals(
            handled, errors=mapping.dropped, waiting=waiting, lag_ms=lag_ms, problem=problem
        )

    def _shards_of(
        self, mapping: EventSourceMapping, checkpoints: Mapping[str, Checkpoint]
    ) -> list[tuple[str, int, int, int | None]]:
        """Return shard id, index, waiting records and the oldest one's arrival; nothing for other sources."""
        if not id_of(mapping.read_arn).startswith("stream:"):
            return []
        reader, rows = self._kinesis.reader, list[tuple[str, int, int, int | None]]()
        try:
            shards = reader.shards(mapping.read_arn)
        except StreamNotFound:
            return []
        for shard in shards:
            kept = checkpoints.get(shard.shard_id)
            # A shard that has no checkpoint yet is read from its start.
            position = AtSequence(shard.starting_sequence_number) if kept is None else kept.position
            if position is None:
                continue
            try:
                progress = reader.progress(mapping.read_arn, shard.shard_id, position)
            except (ShardNotFound, StreamNotFound):
                continue
            rows.append((shard.shard_id, *progress))
        return rows

    def _age(self, arrival_ms: int | None) -> int:
        return 0 if arrival_ms is None else max(0, self._clock.now_ms() - arrival_ms)

    def _is_ours(self, owned: Any) -> bool:
        return (owned.account, owned.region) == (self._account.account_id, self._account.region)


def _of_shard(shard: Shard) -> Totals:
    log = shard.log
    # The log holds base64: three bytes in four characters.
    return Totals(0, 0) if log is None else Totals(log.next_index, log.stored_bytes * 3 // 4)


def _of_delivery(figures: Mapping[str, Any]) -> Totals:
    done = figures["delivered_records"] + figures["failed_records"] + figures["buffered_records"]
    error = figures["last_error"]
    return Totals(
        done,
        errors=figures["failed_records"],
        waiting=figures["buffered_records"],
        lag_ms=figures["behind_ms"],
        problem=str(error) if error else "",
    )


MOST_BATCHES = 100
MOST_FILES = 128
# Of a file, so much of its end is read at most, and unpacked to so much.
MOST_FILE_BYTES = 64 * 1024 * 1024
MOST_TEXT_BYTES = 64 * 1024 * 1024
# Spark ends a frame with each line that it flushes, as that of a micro-batch.
_FRAME = b"\x28\xb5\x2f\xfd"
_EVENT = b"StreamingQueryListener$QueryProgressEvent"

# A batch that ended longer ago says nothing of now.
_NEW_MS = 60_000

Batches = dict[str, list[dict[str, Any]]]


def streaming_queries(folder: Path) -> list[dict[str, Any]]:
    """Return the streaming queries of the job in `folder`: id, name, and the newest batches, oldest first.

    Spark writes the log while the job runs, a moment behind, and begins a new file when one is full. The files are read
    from the newest back, each from its end, until every query has `MOST_BATCHES`: the newest batch is never missed,
    however long the log is.
    """
    queries: Batches = {}
    for file in islice(_newest_first(folder), MOST_FILES):
        for query, batches in _read(file).items():
            queries[query] = [*batches, *queries.get(query, ())][-MOST_BATCHES:]
        if queries and all(len(batches) >= MOST_BATCHES for batches in queries.values()):
            break
    return [
        {
            "id": query,
            "name": next((one["name"] for one in reversed(batches) if one["name"]), ""),
            "batches": batches,
        }
        for query, batches in reversed(queries.items())
    ]


def rate_of(queries: list[dict[str, Any]], now_ms: int) -> float | None:
    """Return how many rows a second the queries process; a query without a batch in the last minute processes none.

    None without a query.
    """
    rates: list[float] = []
    for query in queries:
        newest = query["batches"][-1]
        try:
            begun_ms = datetime.fromisoformat(newest["at"]).timestamp() * 1000
        except ValueError:
            continue
        is_new = now_ms - begun_ms - (newest["durationMs"] or 0) < _NEW_MS
        rates.append(newest["processedPerS"] if is_new else 0.0)
    return sum(rates) if rates else None


def _newest_first(folder: Path) -> Iterator[Path]:
    for log in reversed(event_logs(folder)):
        files = sorted(log.path.glob("events_*"), key=_number) if log.path.is_dir() else [log.path]
        yield from reversed(files)


def _number(file: Path) -> int:
    number = file.name.split("_")[1]
    return int(number) if number.isdecimal() else 0


def _read(file: Path) -> Batches:
    """Return the newest batches of a file by query; nothing when Spark has removed it meanwhile."""
    try:
        at = file.stat()
        return _read_once(file, at.st_size, at.st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=MOST_FILES)
def _read_once(file: Path, size_bytes: int, _: int) -> Batches:
    """Read a file once for each size and time: a full one does not change, and a page asks every few seconds."""
    start = max(0, size_bytes - MOST_FILE_BYTES)
    with file.open("rb") as opened:
        opened.seek(start)
        data = opened.read(MOST_FILE_BYTES)
    text = _unpack_last_text(data) if ".zstd" in file.name else data[-MOST_TEXT_BYTES:]
    batches: Batches = {}
    for batch in _batches(text):
        known = batches.setdefault(batch["queryId"], [])
        known.append(batch)
        del known[:-MOST_BATCHES]
    return batches


def _unpack_last_text(data: bytes) -> bytes:
    """Return the end of what the data unpacks to, frame by frame from the last back."""
    texts: list[bytes] = []
    room_bytes, start, end = MOST_TEXT_BYTES, len(data), len(data)
    while room_bytes > 0 and (start := data.rfind(_FRAME, 0, start)) >= 0:
        text = _unpack_frames(data[start:end], room_bytes)
        # Without any text these bytes only look like a frame's beginning: they belong to the frame before.
        if text:
            texts.append(text)
            room_bytes -= len(text)
            end = start
    return b"".join(reversed(texts))


def _unpack_frames(data: bytes, room_bytes: int) -> bytes:
    """Return what frames unpack to, at most `room_bytes`, or what is unpacked before the first error."""
    import cramjam  # with the first log: it takes 1.5 MB

    # The output has a fixed size, so that no log can swell this process.
    for size_bytes in (min(room_bytes, 32 * len(data) + 65_536), room_bytes):
        text = bytearray(size_bytes)
        try:
            return bytes(text[: cramjam.zstd.decompress_into(data, text)])
        except cramjam.DecompressionError:
            # Too little room, or the last frame of a running job, which has no end yet.
            if text[-1] == 0:
                break
    return bytes(text.rstrip(b"\0"))


def _batches(text: bytes) -> Iterable[dict[str, Any]]:
    for line in text.split(b"\n"):
        if _EVENT not in line[:200]:
            continue
        try:
            progress = as_mapping(as_mapping(json.loads(line)).get("progress"))
        except (ValueError, RecursionError):
            continue  # The last line is not yet written whole.
        yield _describe(progress)


def _describe(progress: dict[str, Any]) -> dict[str, Any]:
    sources = [as_mapping(one) for one in cast("list[Any]", progress.get("sources") or [])]
    state = [as_mapping(one) for one in cast("list[Any]", progress.get("stateOperators") or [])]
    durations = as_mapping(progress.get("durationMs"))
    return {
        "queryId": str(progress.get("id", "")),
        "name": str(progress.get("name") or ""),
        "batchId": progress.get("batchId"),
        "at": str(progress.get("timestamp", "")),
        "durationMs": progress.get("batchDuration", durations.get("triggerExecution")),
        "rows": _sum(sources, "numInputRows"),
        "inputPerS": _sum(sources, "inputRowsPerSecond"),
        "processedPerS": _sum(sources, "processedRowsPerSecond"),
        "watermark": str(as_mapping(progress.get("eventTime")).get("watermark", "")),
        "stateRows": _sum(state, "numRowsTotal") if state else None,
        "stateBytes": _sum(state, "memoryUsedBytes") if state else None,
        "late": _sum(state, "numRowsDroppedByWatermark") if state else None,
    }


def _sum(rows: list[dict[str, Any]], name: str) -> float:
    """Return the sum of a figure; Spark writes one that it does not know as NaN, in quotes or as null."""
    values = (row.get(name) for row in rows)
    return sum(one for one in values if isinstance(one, int | float) and one == one)
