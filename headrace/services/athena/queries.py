"""Runs queries, each in a child process; writes their results to S3, and their outcomes to moto's state."""

from __future__ import annotations

import importlib.util
import json
import logging
import shutil
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import partition_of
from headrace.core.clock import Clock
from headrace.core.extras import install_command
from headrace.core.ports import (
    BucketNotFound,
    CallerIdentity,
    ControlPlane,
    Guard,
    KeyRefused,
    ObjectStore,
)
from headrace.services.athena.catalog import Catalog
from headrace.services.athena.catalog_statements import CatalogStatements
from headrace.services.athena.hive_types import CatalogRefused, split_location
from headrace.services.athena.iceberg_tables import IcebergTables
from headrace.services.athena.processes import Processes, end, kill
from headrace.services.athena.results import read_lines, read_rows

log = logging.getLogger(__name__)

# AWS runs 150 and more at a time; here each has a process with two threads.
MOST_RUNNING = 4
MOST_WAITING = 1000
# Documented: service-limits, the timeout of a DML query.
TIMEOUT_S = 30 * 60
MEMORY_BYTES = 1024**3
DISK_BYTES = 8 * 1024**3
JOIN_S = 5.0
_FOLDER = "athena-"
STOPPED_REASON = "headrace was stopped while the query ran."
_ENDED = "The query's process ended without an answer: it took too much time or memory"


@dataclass(frozen=True, slots=True)
class Query:
    """A query as StartQueryExecution gives it.

    Attributes:
        output: where its results go: `s3://bucket/prefix/`.
        acting: whose rights on Glue and S3 it uses; None for the account itself.
    """

    id: str
    account: str
    region: str
    text: str
    database: str
    output: str
    parameters: tuple[str, ...] = ()
    acting: CallerIdentity | None = None


@dataclass(slots=True)
class Outcome:
    """How a query ended. Plain values, stored with moto's execution.

    Attributes:
        category: of an error: 1 for the system, 2 for the user; 0 without one.
        columns: the result's: name and type.
        location: the result's file in S3; its rows are CSV with a header for a SELECT, else lines.
    """

    state: str
    reason: str = ""
    category: int = 0
    kind: str = "DML"
    substatement: str = ""
    columns: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    location: str = ""
    manifest: str = ""
    is_text: bool = False
    scanned_bytes: int = 0
    update_count: int | None = None
    millis: int = 0
    ended_ms: int = 0


class Queries:
    """The queries of one cloud that wait or run. Thread-safe."""

    def __init__(
        self,
        *,
        control: ControlPlane,
        objects: ObjectStore,
        guard: Guard,
        clock: Clock,
        store: Callable[[Callable[[], None]], None],
        begin: Callable[[Query], None],
        finish: Callable[[Query, Outcome], None],
        temp_dir: Path,
    ) -> None:
        """Take the cloud's parts.

        Args:
            control: for Glue's catalogue.
            objects: for the tables' objects and the results.
            guard: decides what a query's caller may read and write.
            clock: the cloud's.
            store: runs a change of moto's state under its lock, and stores it.
            begin: says in moto's state that a query runs; `store` calls it.
            finish: stores an outcome in moto's state; `store` calls it.
            temp_dir: for the queries' files.
        """
        self._control, self._objects, self._clock = control, objects, clock
        self._guard = guard
        self._store, self._begin, self._finish = store, begin, finish
        self._temp_dir, self._processes = temp_dir, Processes(temp_dir)
        self._lock = threading.Lock()
        self._waiting: deque[Query] = deque()
        self._running: dict[str, _Run] = {}
        self._is_stopping = False

    def start(self) -> None:
        """Remove what the queries of a killed cloud left; others start when they are asked for."""
        for folder in self._temp_dir.glob(f"{_FOLDER}*"):
            shutil.rmtree(folder, ignore_errors=True)

    def submit(self, query: Query) -> None:
        """Run a query when there is a place; it is stored once the caller releases moto's lock. Raises AwsError."""
        missing = next(
            (
                name
                for name in ("duckdb", "sqlglot", "pyarrow")
                if importlib.util.find_spec(name) is None
            ),
            None,
        )
        if missing is not None:
            raise AwsError(
                "InvalidRequestException",
                f"headrace runs Athena's queries with {missing}, which is not installed: {install_command('athena')}",
            )
        with self._lock:
            if self._is_stopping:
                raise AwsError("InternalServerException", "headrace is stopping", 500)
            if len(self._waiting) >= MOST_WAITING:
                raise AwsError(
                    "TooManyRequestsException",
                    "You have exceeded the limit for the number of queries you can run concurrently. Please "
                    "reduce the number of concurrent queries submitted by this account.",
                )
            self._waiting.append(query)
        self._fill()

    def state_of(self, query_id: str) -> str:
        """Return QUEUED or RUNNING; empty when a query neither waits nor runs."""
        with self._lock:
            if query_id in self._running:
                return "RUNNING"
            return "QUEUED" if any(query.id == query_id for query in self._waiting) else ""

    def cancel(self, query_id: str) -> None:
        """End a query; its outcome is the caller's business."""
        with self._lock:
            self._waiting = deque(query for query in self._waiting if query.id != query_id)
            run = self._running.get(query_id)
        if run is not None:
            run.kill()

    def page(
        self,
        location: str,
        offset: int,
        count: int,
        *,
        is_text: bool,
        acting: CallerIdentity | None,
        region: str,
    ) -> tuple[list[list[str | None]], int]:
        """Return rows of a result from a byte's offset on, and where the next begin; -1 at the end.

        Who reads them (`acting`; None for the account itself) needs s3:GetObject (documented: API_GetQueryResults).
        Raises AwsError, BucketNotFound, ObjectNotFound.
        """
        bucket, _, key = location.removeprefix("s3://").partition("/")
        arn = f"arn:{partition_of(region)}:s3:::{bucket}/{key}"
        if acting is not None and (denial := self._guard.denial(acting, "s3:GetObject", arn)):
            raise AwsError(
                "InvalidRequestException",
                f"Access denied when reading location: {location} (Service: Amazon S3; Status Code: 403): {denial}",
            )
        read = read_lines if is_text else read_rows
        return read(self._objects.file(bucket, key), offset, count)

    def stop(self) -> None:
        """End all queries without storing an outcome: the next read says that they were stopped."""
        with self._lock:
            self._is_stopping = True
            self._waiting.clear()
            runs = list(self._running.values())
        for run in runs:
            run.kill()
        until = time.monotonic() + JOIN_S
        for run in runs:
            run.thread.join(max(0.0, until - time.monotonic()))
        self._processes.close()

    def _fill(self) -> None:
        with self._lock:
            while self._waiting and len(self._running) < MOST_RUNNING and not self._is_stopping:
                query = self._waiting.popleft()
                run = self._running[query.id] = _Run(
                    query,
                    Catalog(
                        self._control,
                        self._objects,
                        self._clock,
                        guard=self._guard,
                        acting=query.acting,
                        account=query.account,
                        region=query.region,
                    ),
                    self._clock,
                    self._temp_dir,
                    self._processes,
                )
                run.thread = threading.Thread(
                    target=self._run, args=(run,), name=f"athena-{query.id[:8]}", daemon=True
                )
                run.thread.start()

    def _run(self, run: _Run) -> None:
        try:
            # This waits until the starting request is stored.
            self._store(lambda: self._begin(run.query))
            outcome = run.run()
            if not self._is_stopping and not run.is_killed:
                self._store(lambda: self._finish(run.query, outcome))
        except Exception:
            # The query no longer runs, and the next read shows that.
            if not self._is_stopping:
                log.exception("the query %s could not be stored", run.query.id)
        finally:
            with self._lock:
                self._running.pop(run.query.id, None)
            self._fill()


class _Run:
    """A query that runs. Any thread may call `kill`."""

    def __init__(
        self,
        query: Query,
        catalog: Catalog,
        clock: Clock,
        temp_dir: Path,
        processes: Processes,
    ) -> None:
        self.query = query
        self.thread = threading.current_thread()
        self.is_killed = False
        self._catalog, self._clock = catalog, clock
        self._temp_dir, self._processes = temp_dir, processes
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def kill(self) -> None:
        """End the query's process."""
        with self._lock:
            self.is_killed = True
        self._kill_process()

    def _kill_process(self) -> None:
        with self._lock:
            if self._process is not None:
                kill(self._process)

    def run(self) -> Outcome:
        """Run the query; return how it ended."""
        began = time.monotonic()
        self._temp_dir.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=self._temp_dir))
        try:
            # Before it changes anything.
            self._catalog.check_output(self.query.output, self.query.id)
            outcome = self._ask(folder)
        except (CatalogRefused, AwsError, KeyRefused) as error:
            outcome = Outcome("FAILED", str(error), 2)
        except BucketNotFound as error:
            outcome = Outcome(
                "FAILED", f"HIVE_METASTORE_ERROR: The bucket does not exist: {error}", 2
            )
        except Exception as error:
            log.exception("the query %s failed", self.query.id)
            outcome = Outcome(
                "FAILED", f"GENERIC_INTERNAL_ERROR: {type(error).__name__}: {error}", 1
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        outcome.millis = round((time.monotonic() - began) * 1000)
        outcome.ended_ms = self._clock.now_ms()
        return outcome

    def _ask(self, folder: Path) -> Outcome:
        process = self._start(folder)
        # Only a kill ends a process that waits; time that the processor gives to others counts, too, as on AWS.
        watch = threading.Timer(TIMEOUT_S, self._kill_process)
        watch.daemon = True
        watch.start()
        is_free = False
        try:
            message = self._talk(process, folder)
            is_free = message is not None
            return self._settle(message, folder) if message is not None else self._fail(folder)
        finally:
            watch.cancel()
            with self._lock:
                # What is killed from now on is no process of this query.
                self._process = None
                is_free = is_free and not self.is_killed
            if is_free:
                self._processes.give(process)
            else:
                end(process)

    def _start(self, folder: Path) -> subprocess.Popen[str]:
        with self._lock:
            if self.is_killed:
                raise CatalogRefused(STOPPED_REASON)
            (folder / "errors").touch()
            self._process = process = self._processes.take(folder / "errors")
        return process

    def _talk(self, process: subprocess.Popen[str], folder: Path) -> Mapping[str, Any] | None:
        """Answer what a query's process asks for; return what it says at last, None when it ends without."""
        assert process.stdin is not None
        assert process.stdout is not None

        def say(message: Any) -> None:
            assert process.stdin is not None
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()

        query = self.query
        try:
            say(
                {
                    "query": query.text, "database": query.database, "parameters": query.parameters,
                    "folder": str(folder), "cpu_s": TIMEOUT_S, "memory_bytes": MEMORY_BYTES,
                    "disk_bytes": DISK_BYTES, "now_ms": self._clock.now_ms(),
                }
            )  # fmt: skip
            while line := process.stdout.readline():
                message = json.loads(line)
                answer = self._answer(message)
                if answer is None:
                    return message
                say(answer)
        except BrokenPipeError:
            pass  # the process has ended: what it wrote to its errors says why
        return None

    def _fail(self, folder: Path) -> Outcome:
        errors = (folder / "errors").read_text("utf-8", "replace").strip().splitlines()
        if errors:
            log.warning("athena %s: %s", self.query.id, "\n".join(errors[-20:]))
        return Outcome("FAILED", f"EXCEEDED_RESOURCE_LIMIT: {_ENDED}", 2)

    def _answer(self, message: Mapping[str, Any]) -> Any:
        """Return what the query's process asks for; None when it asks for nothing. Raises CatalogRefused, AwsError."""
        catalog = self._catalog
        if "tables" in message:
            return [catalog.describe(database, name) for database, name in message["tables"]]
        if "object" in message:
            return catalog.find_object(message["object"])
        if "catalogue" in message:
            return catalog.list_all()
        if "target" in message:
            return catalog.describe_target(*message["target"])
        if "unused" in message:
            database, name, location, if_not_exists = message["unused"]
            return IcebergTables(catalog).check_new(
                database, name, location, if_not_exists=if_not_exists
            )
        if "commit" in message:
            return IcebergTables(catalog).commit(message["commit"])
        if "delete" in message:
            return catalog.delete_objects(message["delete"])
        return None

    def _settle(self, message: Mapping[str, Any], folder: Path) -> Outcome:
        if "refused" in message:
            return Outcome("FAILED", message["refused"], message["category"])
        if "act" in message:
            return self._act(message["act"], folder)
        done = message["done"]
        act = done.get("act")
        outcome = Outcome("SUCCEEDED", scanned_bytes=done["scanned_bytes"])
        if act is None:
            outcome.columns, outcome.is_text = done["columns"], done.get("is_text", False)
            outcome.substatement = "EXPLAIN" if outcome.is_text else "SELECT"
            outcome.kind = "UTILITY" if outcome.is_text else "DML"
            outcome.location = self._put_result(
                folder / "result", "txt" if outcome.is_text else "csv"
            )
            return outcome
        uris = done.get("committed")
        if uris is None:
            uris = self._catalog.store(done, self.query.id, self.query.output)
        outcome.kind, outcome.substatement = act["kind"], act["substatement"]
        outcome.columns = [{"name": "rows", "type": "bigint"}]
        outcome.update_count = done["rows"]
        (folder / "manifest").write_text("".join(f"{uri}\n" for uri in uris), encoding="utf-8")
        outcome.manifest = self._put(folder / "manifest", f"{self.query.id}-manifest.csv")
        # What it wrote is its result: a read of the results shows no rows.
        outcome.location, outcome.is_text = f"{self.query.output}{self.query.id}", True
        return outcome

    def _act(self, statement: Mapping[str, Any], folder: Path) -> Outcome:
        shown = CatalogStatements(self._catalog).act(statement)
        outcome = Outcome("SUCCEEDED", kind=statement["kind"], is_text=True)
        outcome.substatement = statement["substatement"]
        outcome.columns = [{"name": name, "type": "string"} for name in shown.columns]
        (folder / "result").write_text(
            "".join(f"{line}\n" for line in shown.lines), encoding="utf-8"
        )
        outcome.location = self._put_result(folder / "result", "txt")
        return outcome

    def _put_result(self, file: Path, suffix: str) -> str:
        return self._put(file, f"{self.query.id}.{suffix}")

    def _put(self, file: Path, name: str) -> str:
        bucket, prefix = split_location(self.query.output)
        self._catalog.put(bucket, f"{prefix}{name}", file)
        return f"s3://{bucket}/{prefix}{name}"
