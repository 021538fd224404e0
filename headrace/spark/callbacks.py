"""The streaming source for Spark 3.5, which has no Python data sources: the JVM calls it in the driver's Python.

Spark's engine calls a source through two Java interfaces. Py4J, which PySpark uses, gives the JVM an object that
implements them and passes each call to Python, as for `foreachBatch`. PySpark creates the frame of a micro-batch from
rows that tasks read (see `arrow_tasks`). So offsets, checkpoints, limits, triggers and progress are Spark's own.

This module uses internal names of Spark's JVM, which are the same in all of 3.5 and different in 4.x.
"""

# ruff: noqa: SLF001 - PySpark has no public way to its JVM

from __future__ import annotations

import atexit
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

import py4j.clientserver  # pyright: ignore[reportMissingTypeStubs]
import pyspark.java_gateway
from pyspark.sql import DataFrame, SparkSession

from headrace.spark.arrow_tasks import WorkReader, read_in_tasks
from headrace.spark.offsets import Latest, Offset
from headrace.spark.options import Options
from headrace.spark.planning import Planning, with_mode
from headrace.spark.progress import BEHIND
from headrace.spark.reading import COLUMNS
from headrace.spark.untyped import untyped

_LOOK_FOR_STOP_S = 0.1

T = TypeVar("T")


class UnsupportedSession(RuntimeError):
    """The session lacks something that the source needs."""


class Run:
    """The planning of one run of a query. Used only by the query's thread.

    Args:
        options: the source's options.
        master: the session's master.
        checkpoint: the query's checkpoint; None if it is not known.
    """

    def __init__(self, options: Options, master: str, checkpoint: str | None) -> None:
        self.options = with_mode(options, master, checkpoint)
        self._made: Planning | None = None

    def planning(self) -> Planning:
        """Return the run's planning, which is made at the first call."""
        if self._made is None:
            self._made = Planning(self.options)
            # A job may end without stopping its queries.
            atexit.register(self.close)
        return self._made

    def behind_ms(self) -> dict[str, int]:
        """Return each shard's known lag in milliseconds."""
        return {} if self._made is None else self._made.behind_ms()

    def release(self, end: dict[str, Any]) -> None:
        """Release what no task reads again."""
        if self._made is not None:
            self._made.release(end)

    def close(self) -> None:
        """Stop reading and remove the spool."""
        atexit.unregister(self.close)
        if self._made is not None:
            self._made.close()
            self._made = None


class CallbackSource:
    """The source of one streaming frame, which the JVM calls. Each run of a query with the frame reads separately.

    Thread-safe: Spark calls it on the run's thread, and each run has its own.
    """

    def __init__(self, spark: SparkSession, options: Options) -> None:
        self._spark = spark
        self._options = options
        self._jvm: Any = untyped(spark)._jvm
        self._session: Any = untyped(spark)._jsparkSession
        self._schema: Any = self._jvm.org.apache.spark.sql.types.StructType.fromDDL(COLUMNS)
        self._runs: dict[int, Run] = {}

    class Java:
        """The Java interfaces that Py4J implements for this class."""

        implements = (
            "org.apache.spark.sql.execution.streaming.Source",
            "org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow",
        )

    # --- Spark's calls ------------------------------------------------------------------------

    def schema(self) -> Any:
        """Return the columns."""
        return self._schema

    def initialOffset(self) -> Any:
        """Return the offset where a query begins."""
        return self._to_java(self._initial())

    def deserializeOffset(self, text: str) -> Any:
        """Return the offset in a checkpoint."""
        return self._jvm.org.apache.spark.sql.execution.streaming.SerializedOffset(text)

    def getDefaultReadLimit(self) -> Any:
        """Return the options' limit for a micro-batch."""
        limits = self._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
        most = self._options.max_records_per_trigger
        return limits.allAvailable() if most is None else limits.maxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """End at the stream's present end."""
        run = self._run()
        self._unless_stopped(lambda: run.planning().stop_at_now())

    def latestOffset(self, start: Any, limit: Any) -> Any:
        """Return the end of the batch that begins at `start`; None is where the query begins."""
        most = _most(limit)
        first = self._initial() if start is None else self._to_python(start)
        run = self._run()
        return self._to_java(self._unless_stopped(lambda: run.planning().plan(first, most)))

    def reportLatestOffset(self) -> Any:
        """Return the shards' known lag, for the query's progress (`headrace.spark.progress`)."""
        behind = json.dumps({BEHIND: self._run().behind_ms()})
        return self.deserializeOffset(behind)

    def getBatch(self, start: Any, end: Any) -> Any:
        """Return the frame of the records between two offsets. Spark calls this again to repeat a batch."""
        first = self._initial() if start.isEmpty() else self._to_python(start.get())
        last = self._to_python(end)
        run = self._run()
        work = self._unless_stopped(lambda: run.planning().work(first, last))
        frame = (
            read_in_tasks(self._spark, WorkReader(run.options, work), len(work))
            if work
            else self.empty()
        )
        rows = frame.queryExecution().toRdd()
        return self._session.internalCreateDataFrame(rows, self._schema, True)

    def commit(self, end: Any) -> None:
        """Release the records that Spark has finished."""
        self._run().release(self._to_python(end))

    def stop(self) -> None:
        """End the run's reading and remove its spool."""
        run = self._runs.pop(self._thread_id(), None)
        if run is not None:
            run.close()

    def getOffset(self) -> Any:
        """Raise: Spark calls this only for sources without limits."""
        raise NotImplementedError("a source with limits is asked for latestOffset")

    def toString(self) -> str:
        """Return the description in a query's progress and plan."""
        return f"Kinesis[{self._options.stream}]"

    def hashCode(self) -> int:
        """Return a hash of the identity, because Spark keeps sources in maps."""
        return hash(id(self)) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """Return whether it is the same object."""
        return other is self

    # --- parts --------------------------------------------------------------------------------

    def empty(self) -> Any:
        """Return a Java frame without rows."""
        return self._session.createDataFrame(self._jvm.java.util.ArrayList(), self._schema)

    def _run(self) -> Run:
        """Return the run of the calling thread: Py4J calls back on the run's own thread."""
        thread_id = self._thread_id()
        run = self._runs.get(thread_id)
        if run is None:
            run = Run(self._options, str(self._spark.sparkContext.master), self._checkpoint())
            self._runs[thread_id] = run
        return run

    def _checkpoint(self) -> str | None:
        """Return the checkpoint of the query whose thread calls."""
        query_id = self._spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        query = None if query_id is None else self._spark.streams.get(query_id)
        return (
            None
            if query is None
            else str(untyped(query)._jsq.streamingQuery().resolvedCheckpointRoot())
        )

    def _thread_id(self) -> int:
        return int(self._jvm.java.lang.Thread.currentThread().getId())

    def _unless_stopped(self, work: Callable[[], T]) -> T:
        """Run `work` on another thread and return its result; fail soon after the query is stopped.

        Spark stops a query by interrupting its thread and waiting for the thread's end. Without this, a stop would wait
        for all retries of a call to an unreachable service.
        """
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - handed to who waits
                done.set_exception(error)

        threading.Thread(target=run, name="kinesis-plan", daemon=True).start()
        while not wait([done], _LOOK_FOR_STOP_S).done:
            # Raises InterruptedException, which tells Spark that this is not a failure.
            self._jvm.java.lang.Thread.sleep(1)
        return done.result()

    def _initial(self) -> dict[str, Any]:
        # The same at every start: Spark does not store it, and calls again when it repeats batch 0.
        return Offset(self._options.stream, self._options.init or Latest()).to_json()

    def _to_java(self, offset: dict[str, Any]) -> Any:
        return self.deserializeOffset(json.dumps(offset))

    def _to_python(self, offset: Any) -> dict[str, Any]:
        return json.loads(offset.json())


class OneBatchSource(CallbackSource):
    """A source that does not know the trigger AvailableNow, as EMR's connector: Spark then runs one batch."""

    class Java(CallbackSource.Java):
        """The Java interfaces that Py4J implements for this class."""

        implements = (  # pyrefly: ignore[bad-override]
            "org.apache.spark.sql.execution.streaming.Source",
            "org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl",
        )


def _most(limit: Any) -> int | None:
    return int(limit.maxRows()) if limit.getClass().getSimpleName() == "ReadMaxRows" else None


def stream_frame(
    spark: SparkSession, options: Options, kind: type[CallbackSource] = CallbackSource
) -> DataFrame:
    """Return the streaming frame of a new source of a kind. Raises UnsupportedSession."""
    gateway: Any = untyped(spark.sparkContext)._gateway
    if not isinstance(gateway, py4j.clientserver.ClientServer):
        raise UnsupportedSession(
            "On Spark 3.5 the kinesis source needs Python threads that are the JVM's, which is PySpark's default: "
            "do not set PYSPARK_PIN_THREAD to false."
        )
    untyped(pyspark.java_gateway).ensure_callback_server_started(gateway)
    source = kind(spark, options)
    jvm: Any = untyped(spark)._jvm
    session: Any = untyped(spark)._jsparkSession
    columns = source.empty().queryExecution().analyzed().output()
    relation = jvm.org.apache.spark.sql.execution.streaming.StreamingExecutionRelation
    plan = relation(source, columns, jvm.scala.Option.apply(None), session)
    return DataFrame(jvm.org.apache.spark.sql.Dataset.ofRows(session, plan), spark)
