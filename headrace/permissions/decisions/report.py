"""The report of requests that AWS would deny, counted by caller, action, resource and reason. Plain JSON.

Stores the permissions report in a file in the data directory, so that it survives a restart.

A worker writes it a few seconds after an access was noted, and when the cloud stops: a kill loses only these seconds of
the report. The file is bounded: beyond the bound, the entries that were used last are stored.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from headrace.permissions.decisions.decisions import Decisions, folder_of
from headrace.permissions.decisions.identity import NOT_IN_IAM, Identity
from headrace.permissions.decisions.judge import Entry
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
        self._written = decisions.judge.changes
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
            changes = self._decisions.judge.changes
            # Entries that wait to be judged may have been counted since.
            if changes != self._written or self._decisions.judge.waiting:
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
            self._written = self._decisions.judge.changes


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


MOST_ROWS = 2_000
# In the text form, more rows than this of one action and folder are shown as one.
MOST_OF_A_FOLDER = 5


def report_of(decisions: Decisions) -> dict[str, Any]:
    """Return the report, after judging all waiting entries.

    `denied`: a row for each caller, action and resource, the latest first, with AWS's sentence as its reason, a count
    and the first and last time in ISO 8601. `unknown`: operations whose accesses headrace does not know. `not_judged`:
    calls that were too many to be kept and judged. `callers`, `accesses`: how many were judged.
    """
    entries = decisions.entries()
    denied = [entry for entry in entries if entry.denied]
    rows = sorted(_merge_sessions(decisions, denied), key=lambda row: row["last"], reverse=True)
    return {
        "mode": decisions.mode,
        "denied": rows[:MOST_ROWS],
        "unknown": [
            {"operation": f"{service}:{operation}", "count": count}
            for (service, operation), count in sorted(decisions.unknown.items())
        ],
        "not_judged": sum(entry.not_judged for entry in entries),
        "callers": len({_arn(decisions, entry) for entry in entries}),
        "accesses": sum(entry.allowed + entry.denied for entry in entries),
    }


def accesses_seen(decisions: Decisions) -> list[dict[str, Any]]:
    """Return a row for each caller, action and resource, with the counts of allowed and denied calls."""
    rows = [
        {
            "principal": _arn(decisions, entry),
            "session": entry.identity.session,
            "action": entry.access.action,
            "resource": entry.access.resource,
            "allowed": entry.allowed,
            "denied": entry.denied,
        }
        for entry in decisions.entries()
    ]
    return sorted(rows, key=lambda row: (row["principal"], row["action"], row["resource"]))


def _arn(decisions: Decisions, entry: Entry) -> str:
    """Return the ARN of a caller; for a user's key the user's ARN, as long as IAM has it."""
    identity = entry.identity
    known = decisions.people.user_of(identity.name) if identity.kind == "key" else None
    return identity.arn if known is None else known.arn


def _merge_sessions(decisions: Decisions, entries: Iterable[Entry]) -> Iterable[dict[str, Any]]:
    """Yield the rows, with the sessions of a role that were denied the same in one; one row for a missing role."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for entry in entries:
        is_gone = entry.reason.endswith(NOT_IN_IAM)
        what = ("*", "*") if is_gone else (entry.access.action, entry.access.resource)
        arn = _arn(decisions, entry)
        key = (arn, *what)
        row = rows.get(key)
        if row is None:
            rows[key] = {
                "principal": arn,
                "action": what[0],
                "resource": what[1],
                "reason": entry.reason,
                "count": entry.denied,
                "first": _time(entry.first_ms),
                "last": _time(entry.denied_ms),
            }
        else:
            row["count"] += entry.denied
            row["first"] = min(row["first"], _time(entry.first_ms))
            row["last"] = max(row["last"], _time(entry.denied_ms))
    return rows.values()


def _time(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"


def in_words(report: dict[str, Any], *, most: int = 20) -> list[str]:
    """Return the report, or only its denials, as lines: at most `most`, the most frequent first."""
    rows: Sequence[dict[str, Any]] = sorted(
        _merge_resources(report["denied"]), key=lambda row: -row["count"]
    )
    missed = report.get("not_judged", 0)
    rest = [f"Not looked at: {missed:,} calls, of very many different resources."] if missed else []
    if not rows:
        seen = f"{report['accesses']:,} accesses of {report['callers']} callers"
        return [f"AWS would deny nothing of what was done here ({seen}).", *rest]
    things = "1 thing that was" if len(rows) == 1 else f"{len(rows)} things that were"
    lines = [f"AWS would deny {things} done here:"]
    if report["mode"] == "enforce":
        lines = [f"Denied here, as on AWS ({len(rows)}):"]
    for row in rows[:most]:
        name = row["principal"].rpartition(":")[2]
        if row["action"] == "*":
            lines.append(f"  {name} does not exist in IAM ({row['count']:,} calls)")
        else:
            times = f" ({row['count']:,} times)" if row["count"] > 1 else ""
            lines.append(f"  {name}: {row['action']} on {row['resource']}{times}")
            lines.append(f"    {row['reason']}")
    if len(rows) > most:
        lines.append(f"  and {len(rows) - most} more: headrace iam report")
    return lines + rest


def _merge_resources(rows: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Yield the rows, with many resources of one folder or bucket, denied to one caller alike, as one row."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        resource = row["resource"]
        folder = resource if resource.endswith("*") else folder_of(resource)
        groups.setdefault((row["principal"], row["action"], folder), []).append(row)
    for (_, _, folder), group in groups.items():
        if len(group) <= MOST_OF_A_FOLDER:
            yield from group
        else:
            count = sum(row["count"] for row in group)
            yield {**group[0], "resource": f"{len(group)} resources in {folder}", "count": count}
