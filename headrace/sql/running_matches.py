"""A query with MATCH_RECOGNIZE, for the runner without Spark: the rows of its matches."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from typing import Any

from headrace.sql import conversions
from headrace.sql.matching import Matcher
from headrace.sql.plan import ROWTIME, MatchPlan, QueryPlan
from headrace.sql.records import Row
from headrace.sql.running_query import RunningQuery
from headrace.sql.values import evaluator

_MICROSECOND = timedelta(microseconds=1)


class RunningMatches(RunningQuery):
    """A query whose rows wait until the watermark has passed them: then they are in order."""

    def __init__(self, query: QueryPlan, dialect: str) -> None:
        super().__init__(query, dialect)
        assert query.match is not None
        self._match: MatchPlan = query.match
        self._by = [evaluator(one.expression) for one in self._match.partition]
        where = self._match.where
        self._filter = None if where is None else evaluator(where)
        self._columns = [evaluator(one.expression) for one in self._match.columns]
        self._measures = [(one.name, evaluator(one.expression)) for one in self._match.measures]
        self._matchers: dict[str, Matcher] = {}
        self._count = 0

    def take(self, side: int, row: Row) -> list[Row]:
        """Keep a row, unless it is late."""
        scope = super()._scope([row])
        if self._filter is not None and self._filter(scope) is not True:
            return []
        # Spark too filters first: a row that WHERE leaves out is not late.
        if row.time <= self._late_until:
            self.late += 1
            self.late_rows += [row] if self.query.late else []
            return []
        key = json.dumps([conversions.as_json(part(scope)) for part in self._by])
        matcher = self._matchers.get(key)
        if matcher is None:
            matcher = self._matchers[key] = Matcher(self._match.spec())
        self._count += 1
        values = [_carried(part(scope)) for part in self._columns]
        time = (row.time - conversions.EPOCH) // _MICROSECOND
        matcher.take(time, self._count, values)
        self._newest[0] = max(self._newest[0], row.time)
        return []

    def _watermark(self) -> datetime:
        return self._newest[0] - timedelta(milliseconds=self._match.grace_ms)

    def _close(self, until: datetime | None) -> list[Row]:
        """Return the rows of the matches that are certain at the watermark `until`; None ends all."""
        micros = None if until is None else (until - conversions.EPOCH) // _MICROSECOND
        found: list[tuple[int, int, dict[tuple[str, str], Any]]] = []
        for key, matcher in list(self._matchers.items()):
            due = matcher.next_time()
            if micros is not None and (due is None or due > micros):
                continue
            for first, last, values in matcher.advance(micros):
                found.append((last[1], first[1], self._of_match(last[0], values)))
            self.given_up += matcher.given_up
            matcher.given_up = 0
            if matcher.is_empty():
                del self._matchers[key]
        results: list[Row] = []
        for _, _, scope in sorted(found, key=lambda one: one[:2]):
            if self._where is None or self._where(scope) is True:
                time = conversions.EPOCH + scope["", ROWTIME] * _MICROSECOND
                for part in self._with_elements(scope):
                    results += self._result(part, self._key(scope), time)
        return results

    def _of_match(self, time: int, values: list[Any]) -> dict[tuple[str, str], Any]:
        """Return a match's columns."""
        of_navigations: dict[tuple[str, str], Any] = {
            ("", self._match.navigations[index].name): _restored(
                value, self._match.navigations[index].type.name
            )
            for index, value in zip(self._match.results, values, strict=True)
        }
        alias = self._match.relation.alias
        scope: dict[tuple[str, str], Any] = {("", ROWTIME): time}
        for name, measure in self._measures:
            scope[alias, name] = measure(of_navigations)
        at = conversions.EPOCH + time * _MICROSECOND
        scope[alias, ROWTIME] = at if self._times_are_timestamps else conversions.millis(at)
        return scope

    def _key(self, scope: dict[tuple[str, str], Any]) -> str:
        alias = self._match.relation.alias
        values = [scope[alias, one.name] for one in self._match.relation.relation.key_columns()]
        texts = [conversions.text(value) for value in values if value is not None]
        return "|".join(texts) if values else "all"


def _carried(value: Any) -> Any:
    """Return a row's value as the matcher has it in Spark too, where a DATE is text."""
    return (
        value.isoformat() if isinstance(value, date) and not isinstance(value, datetime) else value
    )


def _restored(value: Any, type_name: str) -> Any:
    return date.fromisoformat(value) if type_name == "DATE" and value is not None else value
