"""A query with session windows, for the runner without Spark: sessions grow, and merge."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from headrace.sql import conversions
from headrace.sql.conversions import millis
from headrace.sql.plan import QueryPlan
from headrace.sql.records import Row
from headrace.sql.running_query import Group, RunningQuery, frozen


@dataclass
class _Session(Group):
    """A session, with the rows that were shown of it and of those that it has taken in."""

    shown: list[Row] = field(default_factory=list[Row])


class RunningSessions(RunningQuery):
    """A query whose rows make one session of those that they touch."""

    def __init__(self, query: QueryPlan, dialect: str) -> None:
        super().__init__(query, dialect)
        # What HAVING leaves out has a tombstone if it was shown, as a session that has merged has.
        self._keeps_tombstones = False
        self._gap = timedelta(milliseconds=query.gap_ms())
        # The sessions of each key, so that a row looks at its own alone.
        self._sessions: dict[tuple[str, ...], list[_Session]] = {}

    def _windows(self, time: datetime) -> list[tuple[datetime, datetime]]:
        return [(time, time + self._gap)]

    def _group(self, keys: dict[str, Any], start: datetime, end: datetime) -> Group:
        """Return the session of a row, which takes in those that the row touches."""
        group = _Session(keys, start, end, [[] for _ in self._aggregates])
        key = frozen(keys)
        sessions = self._sessions.setdefault(key, [])
        # Rows exactly one gap apart are of one session, in Spark as in Kafka.
        touching = sorted(
            (one for one in sessions if one.start <= end and start <= one.end),
            key=lambda one: one.start,
        )
        for other in touching:
            sessions.remove(other)
            del self._groups[(*key, other.start)]
            group.start, group.end = min(group.start, other.start), max(group.end, other.end)
            group.shown += other.shown
            group.numbers += other.numbers
            for kept, more in zip(group.rows, other.rows, strict=True):
                kept += more
        if len(touching) > 1:
            # What comes first or last is so by arrival, whichever session it was in.
            places = sorted(range(len(group.numbers)), key=group.numbers.__getitem__)
            group.numbers = [group.numbers[index] for index in places]
            group.rows = [[kept[index] for index in places] for kept in group.rows]
        sessions.append(group)
        self._groups[(*key, group.start)] = group
        return group

    def _pop(self, key: tuple[Any, ...]) -> Group:
        group = super()._pop(key)
        self._sessions[key[:-1]] = [one for one in self._sessions[key[:-1]] if one is not group]
        if not self._sessions[key[:-1]]:
            del self._sessions[key[:-1]]
        return group

    def _changes(self) -> list[Row]:
        """Return a tombstone for each row that its session is no more, and the row that each changed session is."""
        changed, self._changed = self._changed, {}
        gone: list[Row] = []
        rows: list[Row] = []
        for key, group in changed.items():
            # One that another session has taken in since is no more.
            if isinstance(group, _Session) and self._groups.get(key) is group:
                results = self._results_of(group)
                there = {row.key for row in results}
                gone += [replace(row, deleted=True) for row in group.shown if row.key not in there]
                rows += results
                group.shown = results
        return gone + rows

    def _key_of_group(self, group: Group) -> str:
        """Return a row's key; that of a session that may change has its bounds, since a tombstone has its key alone."""
        if not self.query.corrects_sessions():
            return super()._key_of_group(group)
        values = [*group.keys.values(), millis(group.start), millis(group.end - self._gap)]
        return "|".join(conversions.text(value) for value in values if value is not None)
