"""Stores the permissions report in a file in the data directory, so that it survives a restart.

A worker writes it a few seconds after an access was noted, and when the cloud stops: a kill loses only these seconds of
the report. The file is bounded: beyond the bound, the entries that were used last are stored.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import msgspec

from headrace.permissions.decisions.caller import Entry
from headrace.permissions.decisions.decisions import Decisions
from headrace.permissions.decisions.identity import Identity
from headrace.permissions.policies.model import Access

log = logging.getLogger(__name__)

REPORT_FILE = "iam-report.json"
WRITE_EVERY_S = 5.0
MOST_KEPT = 20_000
_FORM = 1


class _Kept(msgspec.Struct, array_like=True):
    """An entry in the file: the number of its identity, its access, and its counts."""

    identity: int
    action: str
    resource: str
    account: str
    context: dict[str, tuple[str, ...]]
    pending: int
    allowed: int
    denied: int
    not_judged: int
    first_ms: int
    last_ms: int
    denied_ms: int
    reason: str
    is_of_many: bool


class _File(msgspec.Struct):
    form: int
    identities: list[Identity]
    entries: list[_Kept]
    unknown: list[tuple[str, str, int]]


class ReportKeeper:
    """A `Worker` that writes the entries of `Decisions` to a file, and reads them at the start. Thread-safe."""

    name = "iam-report"

    def __init__(self, decisions: Decisions, data_dir: Path) -> None:
        self._decisions = decisions
        self._path = data_dir / REPORT_FILE
        self._lock = threading.Lock()
        self._written = decisions.changes
        decisions.on_clear = self._forget

    def load(self) -> None:
        """Pass the file's entries to `Decisions`; an unreadable file is ignored, with a warning."""
        try:
            report = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            log.warning("%s cannot be read, and a new report begins: %s", self._path, error)
            return
        if report.form != _FORM or any(
            one.identity >= len(report.identities) for one in report.entries
        ):
            log.warning("%s is of another form, and a new report begins", self._path)
            return
        unknown = {(service, operation): count for service, operation, count in report.unknown}
        self._decisions.restore([_entry(report.identities, one) for one in report.entries], unknown)

    def step(self) -> float:
        """Write new entries; see `Worker.step`."""
        self.write()
        return WRITE_EVERY_S

    def write(self) -> None:
        """Write the entries, if there are new ones. Raises OSError."""
        with self._lock:
            changes = self._decisions.changes
            # Entries that wait to be judged may have been counted since.
            if changes != self._written or self._decisions.waiting:
                partial = self._path.with_suffix(".partial")
                partial.write_bytes(_encode(self._decisions))
                partial.replace(self._path)
                self._written = changes

    def close(self) -> None:
        """Write new entries before the cloud ends; when they cannot be written, they are lost, with a warning."""
        try:
            self.write()
        except OSError as error:
            log.warning("the last of the report of permissions is not kept: %s", error)

    def _forget(self) -> None:
        with self._lock:
            self._path.unlink(missing_ok=True)
            self._written = self._decisions.changes


def _encode(decisions: Decisions) -> bytes:
    entries = decisions.list_noted()
    if len(entries) > MOST_KEPT:
        entries = sorted(entries, key=lambda entry: -entry.last_ms)[:MOST_KEPT]
    numbers: dict[Identity, int] = {}
    kept = [_to_row(entry, numbers.setdefault(entry.identity, len(numbers))) for entry in entries]
    unknown = [(*key, count) for key, count in list(decisions.unknown.items())]
    return msgspec.json.encode(_File(_FORM, list(numbers), kept, unknown))


def _to_row(entry: Entry, identity: int) -> _Kept:
    access = entry.access
    is_of_many = entry.samples is not None
    return _Kept(
        identity,
        access.action,
        access.resource,
        access.account,
        dict(access.context),
        # The file does not have the samples of shared entries.
        0 if is_of_many else entry.pending,
        entry.allowed,
        entry.denied,
        entry.not_judged + (sum(list(entry.samples.values())) if entry.samples else 0),
        entry.first_ms,
        entry.last_ms,
        entry.denied_ms,
        entry.reason,
        is_of_many,
    )


def _entry(identities: list[Identity], kept: _Kept) -> Entry:
    access = Access(kept.action, kept.resource, kept.account, kept.context)
    values: dict[str, Any] = {
        name: getattr(kept, name)
        for name in ("pending", "allowed", "denied", "not_judged", "first_ms", "last_ms", "denied_ms", "reason")
    }  # fmt: skip
    samples: dict[Access, int] | None = {} if kept.is_of_many else None
    return Entry(identities[kept.identity], access, **values, samples=samples)
