"""Captures a database: its rows as of one moment, then every change after it, without gap or overlap.

The slot's exported snapshot is what the changes begin after. Until all rows are safe the slot is a temporary one, which
goes with its connection; then one statement makes the lasting slot at the same place. So a kill during the snapshot
leaves nothing behind, and the next capture begins anew; a lasting slot means that the snapshot is whole.

What a capture writes to.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Protocol

import psycopg

from headrace.cdc.changes import Change, Commit, Decoder, Row, Table
from headrace.cdc.events import CaptureError, format_lsn
from headrace.cdc.server import Identity, Replication, Server, sentence_of
from headrace.cdc.table_sink import Progress, ProgressFile, check
from headrace.client.clock import Clock

_LOG = logging.getLogger("headrace.cdc")
# The server ends a replication that is silent for wal_sender_timeout, a minute by default.
_CONFIRM_EVERY_S, _LOOK_EVERY_S = 1.0, 10.0
_IDLE_WAIT_S, _FULL_WAIT_S = 0.05, 0.005
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0
_READER_GOES_WITHIN_S = 15.0
# What a server says for a while only, when it refuses a connection.
_PASSING = (
    "starting up",
    "shutting down",
    "recovery",
    "too many",
    "not yet accepting",
    "remaining connection",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What is captured.

    Attributes:
        url: of the database; its user may replicate and read the tables.
        slot, publication: their names on the server; made when they are not there.
        tables: `schema.table` each; none for all.
        snapshot: drop the slot and its progress, and read all rows again.
        keyed_tables: the tables that have partition keys of their own; a warning names those that are not captured.
        most_wal_bytes: the log that the server may keep for the slot; beyond it the slot is dropped. At half there is
            a warning.
        once: end when the server has nothing more.
    """

    url: str
    slot: str
    publication: str
    tables: tuple[str, ...] = ()
    snapshot: bool = False
    keyed_tables: tuple[str, ...] = ()
    most_wal_bytes: int = 16 << 30
    once: bool = False


class Capture:
    """One capture. Used by one thread; `stop` may be called by others."""

    def __init__(
        self, settings: Settings, sink: Sink, progress: ProgressFile, clock: Clock
    ) -> None:
        self._settings, self._sink, self._progress, self._clock = settings, sink, progress, clock
        self._wake = threading.Condition()
        self._is_stopped = False
        self._has_reset = not settings.snapshot
        self._identity = Identity("", 0, 0)
        self._described: dict[int, Table] = {}
        self._warned_bytes = 0
        self._written_lsn = 0

    def stop(self) -> None:
        """End `run` soon; what was taken is flushed first."""
        with self._wake:
            self._is_stopped = True
            self._wake.notify_all()

    def run(self) -> None:
        """Capture until `stop`; a server that goes away is waited for.

        Raises CaptureError; psycopg.Error for what the server refuses; botocore's errors of the sink.
        """
        pause_s = _FIRST_PAUSE_S
        while not self._is_stopped:
            try:
                self._run_connected()
                break
            except psycopg.OperationalError as error:
                # At the start an address may be wrong; later, only what the server itself refuses does not pass.
                if not self._identity.system_id or _is_refusal(error):
                    raise
                _LOG.warning("The server is away, and is tried again: %s", sentence_of(error))
                self._pause(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._sink.flush()

    def _run_connected(self) -> None:
        # A sink may have undone what it was told of tables together with an unfinished transaction.
        self._described.clear()
        server = Server(self._settings.url)
        try:
            self._prepare(server)
            replication = Replication(self._settings.url)
            try:
                if server.slot(self._settings.slot) is None:
                    self._take_snapshot(server, replication)
                self._stream(server, replication)
            finally:
                replication.close()
        finally:
            server.close()

    def _prepare(self, server: Server) -> None:
        settings, is_first = self._settings, not self._identity.system_id
        warnings = server.check()
        if self._sink.home == (server.identity().system_id, server.database):
            # It would empty the tables that it is to read.
            raise CaptureError("The target is the captured database itself: give another.")
        warnings += server.make_publication(settings.publication, settings.tables)
        if self._sink.home is None:
            warnings += server.warn_of_large_values(settings.publication)
        warnings += server.warn_of_unpublished(settings.publication, settings.keyed_tables)
        slot = server.slot(settings.slot)
        if not self._has_reset:
            self._wait_for_reader(server)
            server.drop_slot(settings.slot)
            self._progress.remove()
            self._has_reset, slot = True, None
        if slot is not None and (slot.plugin != "pgoutput" or slot.database != server.database):
            raise CaptureError(
                f"The slot {settings.slot} is of {slot.plugin} on the database {slot.database}, not of pgoutput on"
                f" {server.database}: give another --slot."
            )
        if slot is not None and slot.is_active:
            self._wait_for_reader(server)
        self._identity = server.identity()
        progress = self._progress.read()
        left_lsn = self._find_promotion_lsn(progress)
        promoted = check(progress, self._identity, slot, settings.slot, left_lsn)
        for warning in [*(warnings if is_first else ()), *([promoted] if promoted else ())]:
            _LOG.warning("%s", warning)

    def _find_promotion_lsn(self, progress: Progress | None) -> int | None:
        """Return where a promoted server left the log of the one before. Raises psycopg's errors."""
        if progress is None or progress.timeline == self._identity.timeline:
            return None
        replication = Replication(self._settings.url)
        try:
            return replication.end_of_timeline(progress.timeline, self._identity.timeline)
        except psycopg.errors.UndefinedFile:
            # No history: this server never was at the timeline before, which `check` says.
            return None
        finally:
            replication.close()

    def _wait_for_reader(self, server: Server) -> None:
        """Wait until the server has noticed that the last capture is gone. Raises CaptureError."""
        name = self._settings.slot
        deadline_s = self._clock.monotonic_s() + _READER_GOES_WITHIN_S
        while (slot := server.slot(name)) is not None and slot.is_active:
            if self._clock.monotonic_s() >= deadline_s or self._is_stopped:
                raise CaptureError(f"Another process reads the slot {name} now.")
            self._pause(_FIRST_PAUSE_S)

    # The snapshot.

    def _take_snapshot(self, server: Server, replication: Replication) -> None:
        settings, sink = self._settings, self._sink
        temporary = f"{settings.slot}_snapshot"[:63]
        # Before the slot, which waits for the server's open transactions: the sink's may be one of them.
        sink.begin_snapshot()
        lsn, snapshot = replication.export_snapshot(temporary)
        time_us, row_number, look_s = self._clock.now_ms() * 1000, 0, self._clock.monotonic_s()
        for table, row_filter in server.tables(settings.publication):
            self._describe(Change("schema", table, None, None, lsn, lsn, 0, time_us, 0))
            count = 0
            for row in server.rows(snapshot, table, row_filter):
                self._take(_snapshot_row(table, row, lsn, time_us, row_number))
                row_number += 1
                count += 1
                if self._is_stopped:
                    return
                if self._clock.monotonic_s() - look_s >= _LOOK_EVERY_S:
                    look_s = self._clock.monotonic_s()
                    self._guard(server, replication, temporary)
            _LOG.info("%s: %d rows of the snapshot at %s", table.full_name, count, format_lsn(lsn))
        sink.commit(lsn)
        sink.flush()
        server.keep_slot(temporary, settings.slot)
        self._note(lsn)

    def _take(self, change: Change) -> None:
        while self._sink.is_full() and not self._is_stopped:
            self._pause(_FULL_WAIT_S)
        self._sink.take(change)

    def _describe(self, change: Change) -> None:
        """Tell a table's columns when they are not those that were told last."""
        if self._described.get(change.table.oid) != change.table:
            self._described[change.table.oid] = change.table
            self._sink.take(change)

    # The stream.

    def _stream(self, server: Server, replication: Replication) -> None:
        settings, sink = self._settings, self._sink
        progress = self._progress.read()
        start_lsn = max(sink.resume(), progress.lsn if progress else 0)
        if not server.fails_over(settings.slot):
            try:
                replication.let_fail_over(settings.slot)
            except psycopg.DatabaseError as error:
                _LOG.warning(
                    "A promoted standby will not have the slot %s: %s",
                    settings.slot,
                    sentence_of(error),
                )
        try:
            replication.start(settings.slot, settings.publication, start_lsn)
        except psycopg.errors.UndefinedObject:
            # It may have been dropped since it was looked at.
            check(progress, self._identity, server.slot(settings.slot), settings.slot)
            raise
        target_lsn = server.identity().lsn if settings.once else 0
        decoder, held = Decoder(), None
        server_lsn = 0
        confirm_s = look_s = self._clock.monotonic_s()
        while not self._is_stopped:
            now_s = self._clock.monotonic_s()
            if now_s - confirm_s >= _CONFIRM_EVERY_S:
                confirm_s = now_s
                self._confirm(replication, 0 if decoder.is_in_transaction else server_lsn)
            if now_s - look_s >= _LOOK_EVERY_S:
                look_s = now_s
                self._guard(server, replication, settings.slot)
            if sink.is_full():
                self._pause(_FULL_WAIT_S)
                continue
            message = replication.read()
            if message is None:
                if settings.once and server_lsn >= target_lsn and not decoder.is_in_transaction:
                    sink.flush()
                    self._confirm(replication, server_lsn)
                    return
                replication.wait(_IDLE_WAIT_S)
                continue
            if isinstance(message, int):
                server_lsn = max(server_lsn, message)
                continue
            lsn, payload = message
            held = self._step(decoder, server, decoder.decode(payload, lsn), lsn, held)
        sink.flush()
        self._confirm(replication, 0)

    def _step(
        self,
        decoder: Decoder,
        server: Server,
        result: list[Change] | Commit | Table | None,
        lsn: int,
        held: Change | None,
    ) -> Change | None:
        """Carry out a message. A change is held until the next message says whether it is the transaction's last."""
        sink = self._sink
        if isinstance(result, list):
            for change in result:
                if held is not None:
                    sink.take(held)
                held = change
            return held
        if isinstance(result, Commit):
            if held is not None:
                held.is_last = True
                sink.take(held)
            sink.commit(result.end_lsn)
            return None
        if isinstance(result, Table):
            table = result
            if table.identity == "f":
                table = decoder.replace(server.with_primary_key(table))
            if self._described.get(table.oid) != table:
                if held is not None:
                    sink.take(held)
                    held = None
                change = decoder.schema_change(table, lsn)
                change.defaults = server.defaults(table)
                self._describe(change)
        return held

    def _confirm(self, replication: Replication, server_lsn: int) -> None:
        """Note what is safe, then tell the server: never the other way round, or a kill would look like a loss."""
        lsn = self._sink.safe_lsn()
        if server_lsn > lsn and self._sink.is_idle():
            # What lies between is of other databases and tables: without this, the server would keep it for ever.
            lsn = server_lsn
        lsn = max(lsn, self._written_lsn)
        if lsn > self._written_lsn:
            self._note(lsn)
        replication.confirm(lsn)

    def _note(self, lsn: int) -> None:
        self._progress.write(Progress(self._identity.system_id, self._identity.timeline, lsn))
        self._written_lsn = lsn

    def _guard(self, server: Server, replication: Replication, name: str) -> None:
        """Warn when the server keeps much log for the slot, and drop the slot before its disk is full."""
        settings = self._settings
        slot = server.slot(name)
        kept = 0 if slot is None else slot.kept_bytes
        if kept >= settings.most_wal_bytes:
            # A temporary slot goes with its connection.
            replication.close()
            if name == settings.slot:
                self._wait_for_reader(server)
                server.drop_slot(name)
            raise CaptureError(
                f"The server kept {kept:,} bytes of log for the slot {name}, and --most-wal permits"
                f" {settings.most_wal_bytes:,}: the slot is dropped, so that the server's disk does not fill; start"
                " once with --snapshot to read all rows again."
            )
        if kept >= settings.most_wal_bytes // 2 and kept >= 1.1 * self._warned_bytes:
            self._warned_bytes = kept
            _LOG.warning(
                "The server keeps %d bytes of log for the slot %s; at %d the slot is dropped",
                kept, settings.slot, settings.most_wal_bytes,
            )  # fmt: skip

    def _pause(self, seconds: float) -> None:
        with self._wake:
            if not self._is_stopped:
                self._clock.wait(self._wake, seconds)


def _snapshot_row(table: Table, row: Row, lsn: int, time_us: int, row_number: int) -> Change:
    return Change("r", table, None, row, lsn, lsn, 0, time_us, row_number, is_last=True)


def _is_refusal(error: psycopg.OperationalError) -> bool:
    """Whether the server answered, and refuses this user or database."""
    text = str(error)
    return "FATAL" in text and not any(word in text for word in _PASSING)


def explain(error: psycopg.Error) -> CaptureError:
    """Return PostgreSQL's error as a sentence."""
    return CaptureError(f"PostgreSQL: {sentence_of(error)}.")


class Sink(Protocol):
    """Takes changes in the order of the database. Used by one thread. Raises CaptureError when it cannot go on.

    Attributes:
        home: the server's system id and the database in which it has the rows themselves, and so the large values that
            an update leaves alone; None when it has only events.
    """

    home: tuple[str, str] | None

    def resume(self) -> int:
        """Forget the unfinished transaction; return the LSN that the sink itself keeps, else 0."""
        ...

    def begin_snapshot(self) -> None:
        """Prepare for all rows; what an unfinished snapshot left is to go."""
        ...

    def take(self, change: Change) -> None:
        """Take a change; it may still be in memory when this returns. Does not block for long."""
        ...

    def commit(self, end_lsn: int) -> None:
        """Note that a transaction, or the snapshot, is complete with this LSN."""
        ...

    def safe_lsn(self) -> int:
        """Return the last `end_lsn` up to which everything is durable; 0 for none yet."""
        ...

    def is_full(self) -> bool:
        """Whether the next change must wait."""
        ...

    def is_idle(self) -> bool:
        """Whether nothing that was taken is still on its way."""
        ...

    def flush(self) -> None:
        """Wait until everything that was taken is durable."""
        ...

    def close(self) -> None:
        """Flush, and let go."""
        ...
