"""The planning of one run of a query in either mode, chosen by `kinesis.readMode`.

In the driver mode the driver reads Kinesis and tasks read its files (`planner`); in the distributed mode it only
plans, and tasks read Kinesis (`plan_maker`, `task_reading`). Each takes the other's checkpoint: what a batch reads is
decided by its offset, not by today's mode.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Union

from headrace.spark.metadata import open_store
from headrace.spark.offsets import Init
from headrace.spark.options import InvalidOption, Options
from headrace.spark.plan_maker import PlanMaker
from headrace.spark.planner import Planner, as_offset
from headrace.spark.plans import is_plan
from headrace.spark.reading import read_span
from headrace.spark.spans import Span
from headrace.spark.spool import Slice
from headrace.spark.task_reading import Order, PageSource, Polling, read_order
from headrace.spark.untyped import Records

if TYPE_CHECKING:
    from headrace.spark.client import KinesisClient

log = logging.getLogger(__name__)

# Set by `registering`, where the session is known, for the process that plans.
MASTER_VARIABLE = "HEADRACE_SPARK_MASTER"
Spans = list[tuple[Span, list[Slice]]]
Work = Union[Order, tuple[Init, Spans]]  # what a task reads


def with_mode(options: Options, master: str | None, checkpoint: str | None = None) -> Options:
    """Return options with `read_mode` decided, and with the metadata path of the distributed mode.

    Args:
        options: the query's options.
        master: the session's master, where it is known.
        checkpoint: the query's checkpoint, where it is known (Spark 3.5).

    Raises InvalidOption when the distributed mode is asked for without a metadata path.
    """
    path = options.metadata_path
    if path is None and checkpoint is not None:
        path = f"{checkpoint.rstrip('/')}/kinesis-metadata"
    mode = options.read_mode
    if mode == "auto":
        elsewhere = options.fan_out or (master is not None and master.split("[")[0] != "local")
        mode = "executors" if elsewhere and path is not None else "driver"
        if elsewhere and path is None and not options.fan_out:
            log.warning(
                "The executors are on other machines than the driver, which reads stream %s for them: without "
                "kinesis.metadataPath, a path that all of them see, they cannot read it themselves.",
                options.stream,
            )
    if mode == "executors" and path is None:
        raise InvalidOption(
            "kinesis.readMode is executors, which needs kinesis.metadataPath: a path that the driver and all executors "
            "see (S3, HDFS or a shared folder). Spark does not tell a Python source the query's checkpoint."
        )
    if options.fan_out and mode == "driver":
        raise InvalidOption(
            "kinesis.consumerType is SubscribeToShard, by which executors read, not the driver: set "
            "kinesis.metadataPath to a path that the driver and all executors see, and leave out kinesis.readMode."
        )
    return replace(options, read_mode=mode, metadata_path=path)


def master_of_the_session() -> str | None:
    """Return the master of the session of the process that plans, if `registering` has noted it."""
    return os.environ.get(MASTER_VARIABLE)


class Planning:
    """Plans one run. Used by one thread at a time.

    Args:
        options: the query's options, from `with_mode`.
        one_batch: see `Planner`.
    """

    def __init__(self, options: Options, *, one_batch: bool = False) -> None:
        # boto3 takes long to import, so import it only when a query begins.
        from headrace.spark.client import KinesisClient

        self._options = options
        self._one_batch = one_batch
        self._client = KinesisClient(options)
        self._planner: Planner | None = None
        self._maker: PlanMaker | None = None
        self.is_distributed = options.read_mode == "executors"
        if not self.is_distributed:
            self._reader()

    @property
    def has_left(self) -> bool:
        """Whether a limit kept the last plan from taking all records, as far as the driver knows."""
        if self.is_distributed:
            return not self._options.is_unlimited
        return self._reader().has_left

    def plan(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        """Return the offset of the end of the batch that begins at `start`: the same one if there is nothing new."""
        if self.is_distributed:
            return self._plans().plan(start, most)
        begin = (
            self._plans().positions(start)
            if is_plan(start)
            else as_offset(start, self._options.stream)
        )
        end = self._reader().plan(begin, most)
        return start if end == begin else end.to_json()

    def work(self, start: dict[str, Any], end: dict[str, Any]) -> list[Work]:
        """Return what each task of a batch reads."""
        if start == end:
            return []
        if is_plan(end):
            return [*self._plans().orders(end)]
        stream = self._options.stream
        first = self._plans().positions(start) if is_plan(start) else as_offset(start, stream)
        last = as_offset(end, stream)
        if self.is_distributed:
            planner = Planner(self._client, self._options)
            try:
                return [(first.init, spans) for spans in planner.tasks(first, last)]
            finally:
                planner.close()
        return [(first.init, spans) for spans in self._reader().tasks(first, last)]

    def stop_at_now(self) -> None:
        """End the run at the stream's present end."""
        (self._plans() if self.is_distributed else self._reader()).stop_at_now()

    def behind_ms(self) -> dict[str, int]:
        """Return each shard's known lag in milliseconds; in the distributed mode the greatest one, as `*`."""
        return (self._plans() if self.is_distributed else self._reader()).behind_ms()

    def release(self, end: dict[str, Any]) -> None:
        """Release what no task reads again."""
        if is_plan(end):
            self._plans().release(end)
        elif not self.is_distributed:
            self._reader().release(as_offset(end, self._options.stream))

    def close(self) -> None:
        """Stop reading, and remove the spool."""
        for part in (self._planner, self._maker, self._client):
            if part is not None:
                part.close()
        self._planner = self._maker = None

    def close_at_sigterm(self) -> None:
        """Make SIGTERM remove the spool before it ends the process."""
        if self._planner is not None:
            self._planner.folder.close_at_sigterm()

    def _reader(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._client, self._options, one_batch=self._one_batch)
        return self._planner

    def _plans(self) -> PlanMaker:
        if self._maker is None:
            path = self._options.metadata_path
            if path is None:
                raise InvalidOption(
                    "The checkpoint is of the distributed mode: set kinesis.metadataPath to the path that it was "
                    "written with."
                )
            store = open_store(path, self._options)
            options, name = self._options, self._options.consumer_name
            self._maker = PlanMaker(
                self._client, store, options, options.max_tasks, one_batch=self._one_batch,
                consumer_arn=self._client.consumer_arn(name) if options.fan_out and name else None,
            )  # fmt: skip
        return self._maker


def read_work(options: Options, work: Work) -> Iterator[Records]:
    """Yield a task's records."""
    if not isinstance(work, Order):
        init, spans = work
        for span, slices in spans:
            yield from read_span(options, init, span, slices)
        return
    assert options.metadata_path is not None
    reads = _get_client(options)
    store = open_store(options.metadata_path, options)

    def source_of(shard_id: str, begin: tuple[str | None, Init]) -> PageSource:
        if work.consumer_arn is not None:
            # Imported here: a task that reads from the spool, or polls, does without botocore.
            from headrace.spark.subscription import Subscription

            return Subscription(reads, work.consumer_arn, shard_id, begin)
        return Polling(reads, options, shard_id, begin, work.last.get(shard_id))

    yield from read_order(options, work, store, reads, source_of)


@lru_cache(maxsize=4)
def _get_client(options: Options) -> KinesisClient:
    """Return a client that the worker's later tasks use too, with its connections and credentials."""
    from headrace.spark.client import KinesisClient

    return KinesisClient(options)
