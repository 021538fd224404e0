"""Plans the micro-batches of the distributed mode in the driver, which reads no records: see `plans`.

Whether there is anything new is asked of the shards only when the batches before have read all of them to their ends,
only of up to a thousand, and only for 0.3 seconds: else a batch is planned, whose tasks ask.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from headrace.spark.fetcher import StreamCalls
from headrace.spark.get_records import ExpiredIterator
from headrace.spark.metadata import MetadataError, Store
from headrace.spark.offsets import Offset, has_latest, pinned
from headrace.spark.options import Options
from headrace.spark.plans import (
    Plan,
    PlanOffset,
    Stop,
    after,
    groups_of,
    is_plan,
    kin_of,
    stops_from_bytes,
)
from headrace.spark.spans import Shard, drop_expired, eligible
from headrace.spark.task_reading import Order, stops_file

log = logging.getLogger(__name__)

_THREADS = 16
_PROBING_S = 0.3
# More shards cannot be asked in that time.
_MOST_PROBED = 1_000
_CLOCK_LIFE_S = 60.0
_PLAN = "plan"


@dataclass
class _Done:
    """A batch that Spark has finished: its plan, and where its tasks stopped."""

    offset: PlanOffset
    plan: Plan
    stops: dict[str, Stop]


class PlanMaker:
    """Plans the micro-batches of one query. Used by one thread at a time, as Spark does.

    Args:
        reads: the calls to Kinesis.
        store: the metadata store.
        options: the query's options.
        tasks: how many tasks a batch has at most.
        one_batch: whether a run may end after one batch without telling the source (AvailableNow on Spark 4.0 and 4.1).
        consumer_arn: the registered consumer that tasks read as; None: they poll.
        clock_s, sleep: a clock that only goes forward, in seconds, and a wait.
    """

    def __init__(
        self,
        reads: StreamCalls,
        store: Store,
        options: Options,
        tasks: int,
        *,
        one_batch: bool = False,
        consumer_arn: str | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._reads = reads
        self._store = store
        self._options = options
        self._tasks = tasks
        self._one_batch = one_batch
        self._consumer_arn = consumer_arn
        self._clock_s = clock_s
        self._sleep = sleep
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="kinesis-plan")
        self._cleaner = ThreadPoolExecutor(1, thread_name_prefix="kinesis-clean")
        self._plans: dict[str, Plan] = {}
        self._done: _Done | None = None
        # Where this driver's batches stopped last in each shard; a limit may leave shards out of a batch.
        self._known: dict[str, Stop] = {}
        self._read_out: set[str] = set()
        self._shards: list[Shard] = []
        self._listed_s: float | None = None
        self._until_ms: int | None = None
        self._clock_ms: tuple[float, int] | None = None
        self._probed_s = float("-inf")
        self._probe_at: dict[str, str] = {}
        self._turn = 0
        self._old: list[tuple[int, str, int]] | None = None

    def close(self) -> None:
        """Stop planning."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._cleaner.shutdown(wait=False, cancel_futures=True)

    def stop_at_now(self) -> None:
        """End the following plans at the stream's present end (AvailableNow)."""
        self._until_ms = self._reads.now_ms()[1]
        self._read_out = set()

    def plan(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        """Return the offset of the batch that begins at `start`, or `start` if there is nothing new.

        Args:
            start: the offset of the batch before, in either mode's JSON.
            most: the batch's maximum number of records.

        Raises:
            DataLoss: a shard expired before it was read to its end, and `fail_on_data_loss` is set.
            MetadataError: the metadata store lacks the plan of `start`, or cannot be used.
        """
        done = self._finish_batch(start) if is_plan(start) else None
        begin = (
            Offset.from_json(start, self._options.stream)
            if done is None
            else after(done.plan, done.stops)
        )
        if has_latest(begin.init):
            begin = Offset(begin.stream, pinned(begin.init, self._reads.now_ms()[0]), begin.shards)
        begin = self._without_expired(begin)
        # A task reads a child only if its parents end: see `Plan.parents`.
        joins = self._one_batch and most is None and self._options.limits_shards_alone
        names = self._readable(begin, joins)
        if not names or self._is_left_unread(done) or not self._has_news(names, begin, done):
            return start
        return self._write_plan(self._plan(begin, names, done, most, joins), done).to_json()

    def orders(self, end: dict[str, Any]) -> list[Order]:
        """Return the work of a batch's tasks."""
        offset = PlanOffset.from_json(end, self._options.stream)
        plan = self._plan_of(offset)
        done = self._done
        last = {} if done is None or done.offset.batch != offset.batch - 1 else self._known
        return [
            Order(
                offset.plan, number, _part(plan, list(group)), {n: last[n] for n in group if n in last},
                self._consumer_arn,
            )
            for number, group in enumerate(plan.groups)
        ]  # fmt: skip

    def positions(self, offset: dict[str, Any]) -> Offset:
        """Return the position after the batch of an offset, for the driver mode. Raises MetadataError."""
        done = self._finish_batch(offset)
        return after(done.plan, done.stops)

    def release(self, end: dict[str, Any]) -> None:
        """Remove the files of batches that are older than those Spark keeps, in the background."""
        if not is_plan(end):
            return
        offset = PlanOffset.from_json(end, self._options.stream)
        self._cleaner.submit(self._clean, offset)

    def behind_ms(self) -> dict[str, int]:
        """Return the greatest lag of a shard at the end of the last finished batch, in milliseconds, as `*`."""
        stops = () if self._done is None else self._done.stops.values()
        behind = [stop.behind_ms for stop in stops]
        return {"*": max(behind)} if behind else {}

    # --- where the batch before stopped ---------------------------------------------------------

    def _finish_batch(self, start: dict[str, Any]) -> _Done:
        offset = PlanOffset.from_json(start, self._options.stream)
        if self._done is not None and self._done.offset == offset:
            return self._done
        plan = self._plan_of(offset)
        names = [stops_file(offset.plan, number) for number in range(len(plan.groups))]
        stops: dict[str, Stop] = {}
        for data in self._threads.map(self._store.read, names):
            stops |= {} if data is None else stops_from_bytes(data)
        unread = plan.shards - set(stops) - set(plan.parents)
        if unread:
            log.warning(
                "Batch %d of stream %s ended without its shards %s being read: the next one has their records. "
                "A foreachBatch that does not use all of its batch does that.",
                offset.batch, self._options.stream, ", ".join(sorted(unread)[:10]),
            )  # fmt: skip
        self._done = _Done(offset, plan, stops)
        self._known = {
            name: stop for name, stop in self._known.items() if name not in unread
        } | stops
        if self._until_ms is not None and plan.until_ms >= self._until_ms:
            self._read_out |= {name for name, stop in stops.items() if stop.done}
        self._plans = {offset.plan: plan}
        self._probe_at = {}
        if any(stop.offset is not None and stop.offset.ended for stop in stops.values()):
            self._listed_s = None
        return self._done

    def _plan_of(self, offset: PlanOffset) -> Plan:
        plan = self._plans.get(offset.plan)
        if plan is None:
            data = self._store.read(f"{offset.plan}/{_PLAN}")
            if data is None:
                raise MetadataError(
                    f"The checkpoint names the plan {offset.plan}, which is not under kinesis.metadataPath: that must "
                    "be the same path at every start, and its files must not be removed while the checkpoint is used."
                )
            plan = self._plans[offset.plan] = Plan.from_bytes(data, self._options.stream)
        return plan

    # --- shards ---------------------------------------------------------------------------------

    def _without_expired(self, begin: Offset) -> Offset:
        # Between reshards nothing of the list matters: a reshard shows in the end of a shard.
        if self._listed_s is None or not self._shards:
            self._shards = self._reads.shards()
            self._listed_s = self._clock_s()
        return drop_expired(self._shards, begin, self._options)

    def _readable(self, begin: Offset, joins: bool) -> list[str]:
        if joins:
            return sorted(s.shard_id for s in self._shards if not begin.ended(s.shard_id))
        names = eligible(self._shards, begin)
        return [name for name in names if name not in self._read_out]

    def _is_left_unread(self, done: _Done | None) -> bool:
        """Return whether an AvailableNow run reads nothing of its batches, and so would never end."""
        return (
            self._until_ms is not None
            and done is not None
            and not done.stops
            and done.plan.until_ms >= self._until_ms
        )

    # --- whether there is anything new -----------------------------------------------------------

    def _has_news(self, names: list[str], begin: Offset, done: _Done | None) -> bool:
        if done is None or self._until_ms is not None or len(names) > _MOST_PROBED:
            return True
        for name in names:
            stop = self._known.get(name)
            if stop is None or stop.behind_ms > 0:
                return True
        pause_s = self._options.fetch_interval_ms / 1000 - (self._clock_s() - self._probed_s)
        if pause_s > 0:
            # The answer "nothing new" must be that of now.
            self._sleep(pause_s)
        self._probed_s = self._clock_s()
        event = threading.Event()
        until_s = self._clock_s() + _PROBING_S

        def probe(name: str) -> None:
            if event.is_set():
                return
            if self._clock_s() > until_s or self._is_behind(name, begin, self._known[name]):
                event.set()

        waiting: list[Future[None]] = [self._threads.submit(probe, name) for name in names]
        wait(waiting)
        for one in waiting:
            one.result()
        return event.is_set()

    def _is_behind(self, name: str, begin: Offset, stop: Stop) -> bool:
        """Ask a shard for one record after its position."""
        known = begin.shards.get(name)
        after_number = None if known is None else known.sequence_number
        iterator = self._probe_at.get(name) or stop.iterator
        while True:
            iterator = iterator or self._reads.iterator(name, after_number, begin.init)
            try:
                page = self._reads.records(iterator, 1)
                break
            except ExpiredIterator:
                iterator = None
        if page.rows or page.next_iterator is None or page.millis_behind_latest:
            return True
        self._probe_at[name] = page.next_iterator
        return False

    # --- the plan ---------------------------------------------------------------------------------

    def _plan(
        self, begin: Offset, names: list[str], done: _Done | None, most: int | None, joins: bool
    ) -> Plan:
        options = self._options
        weights = {
            name: 1 + (done.stops[name].rows if done and name in done.stops else 0)
            for name in names
        }
        most_records, most_bytes = options.max_records_per_shard, options.max_bytes_per_shard
        if most is not None:
            if most < len(weights):
                weights = self._in_turn(weights, most)
            share = most // len(weights)
            most_records = share if most_records is None else min(share, most_records)
        if options.max_bytes_per_trigger is not None:
            share = max(1, options.max_bytes_per_trigger // len(weights))
            most_bytes = share if most_bytes is None else min(share, most_bytes)
        parents: dict[str, list[str]] = {}
        if joins:
            groups, parents = kin_of(list(weights), self._shards, weights, self._tasks)
        else:
            groups = groups_of(weights, self._tasks)
        until_ms = self._now_ms() if self._until_ms is None else self._until_ms
        patient = self._one_batch or self._until_ms is not None
        return Plan(begin, groups, until_ms, parents, most_records, most_bytes, patient)

    def _in_turn(self, weights: dict[str, int], most: int) -> dict[str, int]:
        """Return as many shards as a batch may have records, other ones in every batch."""
        names = sorted(weights)
        first = self._turn % len(names)
        self._turn = first + most
        return {name: weights[name] for name in [*names[first:], *names[:first]][:most]}

    def _write_plan(self, plan: Plan, done: _Done | None) -> PlanOffset:
        token = uuid.uuid4().hex[:12]
        lineage = uuid.uuid4().hex if done is None else done.offset.lineage
        batch = 0 if done is None else done.offset.batch + 1
        records = sum(shard.count for shard in plan.begin.shards.values())
        if done is not None:
            # Shards that have expired since count too.
            records = done.offset.records + sum(stop.rows for stop in done.stops.values())
        # Of its own name: a driver that was killed may have left one, and may even still be at work.
        offset = PlanOffset(
            plan.begin.stream, f"{lineage}/{batch:09d}-{token}", batch, len(plan.shards), records
        )
        self._store.create(f"{offset.plan}/{_PLAN}", plan.to_bytes())
        self._plans[offset.plan] = plan
        return offset

    def _now_ms(self) -> int:
        """Return the stream's time, by this machine's clock, which is compared with the stream's once a minute."""
        now_s = self._clock_s()
        if self._clock_ms is None or now_s - self._clock_ms[0] > _CLOCK_LIFE_S:
            self._clock_ms = (now_s, self._reads.now_ms()[1])
        return self._clock_ms[1] + round((now_s - self._clock_ms[0]) * 1000)

    # --- old files ----------------------------------------------------------------------------------

    def _clean(self, offset: PlanOffset) -> None:
        try:
            for folder, groups in self._too_old(offset):
                files = [_PLAN, *(f"{number:06d}" for number in range(groups))]
                self._store.remove(f"{offset.lineage}/{folder}", files)
        except MetadataError as error:
            log.warning("Old files of the query's metadata were not removed: %s", error)

    def _too_old(self, offset: PlanOffset) -> list[tuple[str, int]]:
        """Return the folders of old batches, and how many tasks each has."""
        if self._old is None:
            names = self._store.folders(offset.lineage)
            self._old = [(int(name.partition("-")[0]), name, self._tasks) for name in names]
        name = offset.plan.partition("/")[2]
        if all(known != name for _, known, _ in self._old):
            self._old.append((offset.batch, name, self._tasks))
        before = offset.batch - self._options.min_batches_to_retain
        too_old = [(name, tasks) for batch, name, tasks in self._old if batch < before]
        self._old = [one for one in self._old if one[0] >= before]
        return too_old


def _part(plan: Plan, group: list[str]) -> Plan:
    shards = {name: plan.begin.shards[name] for name in group if name in plan.begin.shards}
    begin = Offset(plan.begin.stream, plan.begin.init, shards)
    parents = {name: plan.parents[name] for name in group if name in plan.parents}
    return Plan(
        begin, [group], plan.until_ms, parents, plan.most_records, plan.most_bytes, plan.patient
    )
