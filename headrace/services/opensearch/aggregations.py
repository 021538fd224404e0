"""Computes aggregations: buckets by terms and by date, and counts, sums, minima and maxima."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from headrace.core.values import iso_of
from headrace.services.opensearch.fields import (
    SearchError,
    floor_to,
    not_supported,
    shift,
    unreadable,
)
from headrace.services.opensearch.query import Argument

MOST_BUCKETS = 65_535
MOST_DEPTH = 5
# Runs a SELECT, and returns its rows.
Select = Callable[[str, Sequence[Argument]], list[tuple[Any, ...]]]
_METRICS = {
    "min": "MIN(v.num)",
    "max": "MAX(v.num)",
    "sum": "COALESCE(SUM(v.num), 0.0)",
    "avg": "AVG(v.num)",
    "value_count": "COUNT(*)",
}
_CALENDAR = {
    "minute": "m",
    "hour": "h",
    "day": "d",
    "week": "w",
    "month": "M",
    "quarter": "q",
    "year": "y",
}
_FIXED_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Aggregator:
    """Computes the aggregations of one search. `types` gives each field's type."""

    select: Select
    types: Mapping[str, str]

    def run(
        self, asked: Any, where: str, arguments: Sequence[Argument], depth: int = 0
    ) -> dict[str, Any]:
        """Return the results by name, computed from the documents `d` that match `where`. Raises SearchError."""
        if not isinstance(asked, dict) or depth > MOST_DEPTH:
            raise unreadable("Found no aggregations, or too deep ones")
        results: dict[str, Any] = {}
        for name, definition in cast("dict[str, Any]", asked).items():
            results[name] = self._one(name, definition, where, arguments, depth)
        return results

    def _one(
        self, name: str, aggregation: Any, where: str, arguments: Sequence[Argument], depth: int
    ) -> dict[str, Any]:
        if not isinstance(aggregation, dict):
            raise unreadable(f"Aggregation [{name}] must be an object")
        members = dict(cast("dict[str, Any]", aggregation))
        inner = members.pop("aggs", members.pop("aggregations", None))
        if len(members) != 1:
            raise unreadable(f"Expected one aggregation type for [{name}]")
        ((kind, options),) = members.items()
        body = cast("dict[str, Any]", options) if isinstance(options, dict) else {}
        if not isinstance(body.get("field"), str):
            raise not_supported(f"the aggregation [{kind}] without a field")
        if kind == "terms":
            return self._terms(body, inner, where, arguments, depth)
        if kind == "date_histogram":
            return self._histogram(body, inner, where, arguments, depth)
        if inner is not None:
            raise unreadable(f"Aggregator [{name}] of type [{kind}] cannot accept sub-aggregations")
        return self._metric(kind, body, where, arguments)

    def _metric(
        self, kind: str, body: dict[str, Any], where: str, arguments: Sequence[Argument]
    ) -> dict[str, Any]:
        _only(kind, body, {"field"})
        source = f"FROM vals v JOIN docs d ON d.id = v.doc WHERE v.field = ? AND {where}"
        parameters = (body["field"], *arguments)
        if kind == "cardinality":
            sql = f"SELECT COUNT(DISTINCT COALESCE(v.txt, v.num)) {source}"
            return {"value": self.select(sql, parameters)[0][0]}
        if kind == "stats":
            names = ("value_count", "min", "max", "avg", "sum")
            row = self.select(
                f"SELECT {', '.join(_METRICS[n] for n in names)} {source}", parameters
            )[0]
            return dict(zip(("count", "min", "max", "avg", "sum"), row, strict=True))
        if kind not in _METRICS:
            raise not_supported(f"the aggregation [{kind}]")
        return {"value": self.select(f"SELECT {_METRICS[kind]} {source}", parameters)[0][0]}

    # --- buckets ------------------------------------------------------------------------------

    def _terms(
        self,
        body: dict[str, Any],
        inner: Any,
        where: str,
        arguments: Sequence[Argument],
        depth: int,
    ) -> dict[str, Any]:
        _only("terms", body, {"field", "size", "order", "min_doc_count"})
        name, size = body["field"], int(body.get("size", 10))
        if not 0 < size <= MOST_BUCKETS:
            raise unreadable(
                f"[size] must be greater than 0 and at most {MOST_BUCKETS}. Found [{size}] in [terms]"
            )
        kind = self.types.get(name)
        if kind == "text":
            raise SearchError(
                400,
                "illegal_argument_exception",
                f"Text fields are not optimised for operations that require per-document field data like"
                f" aggregations and sorting. Please use a keyword field instead, such as [{name}.keyword].",
            )
        column = "txt" if kind == "keyword" else "num"
        rows = self.select(
            f"SELECT v.{column}, COUNT(DISTINCT v.doc) AS n FROM vals v JOIN docs d ON d.id = v.doc"
            f" WHERE v.field = ? AND v.{column} IS NOT NULL AND {where} GROUP BY v.{column}"
            f" HAVING n >= ? ORDER BY {_order(body.get('order'))}",
            (name, *arguments, int(body.get("min_doc_count", 1))),
        )
        buckets: list[dict[str, Any]] = []
        for key, count in rows[:size]:
            bucket = {**_key(key, kind), "doc_count": count}
            if inner is not None:
                more = (
                    f"{where} AND d.id IN (SELECT doc FROM vals WHERE field = ? AND {column} = ?)"
                )
                bucket |= self.run(inner, more, (*arguments, name, key), depth + 1)
            buckets.append(bucket)
        return {
            "doc_count_error_upper_bound": 0,
            "sum_other_doc_count": sum(int(n) for _, n in rows[size:]),
            "buckets": buckets,
        }

    def _histogram(
        self,
        body: dict[str, Any],
        inner: Any,
        where: str,
        arguments: Sequence[Argument],
        depth: int,
    ) -> dict[str, Any]:
        _only(
            "date_histogram",
            body,
            {
                "field",
                "fixed_interval",
                "calendar_interval",
                "interval",
                "min_doc_count",
                "time_zone",
            },
        )
        if body.get("time_zone", "UTC") not in ("UTC", "Z", "+00:00"):
            raise not_supported(f"the time zone [{body['time_zone']}] of a date_histogram")
        begin, following = _steps(body)
        name = body["field"]
        rows = self.select(
            "SELECT v.num, v.doc FROM vals v JOIN docs d ON d.id = v.doc"
            f" WHERE v.field = ? AND v.num IS NOT NULL AND {where}",
            (name, *arguments),
        )
        docs_by_bucket: dict[int, set[int]] = {}
        for number, doc in rows:
            docs_by_bucket.setdefault(begin(int(number)), set()).add(int(doc))
        buckets: list[dict[str, Any]] = []
        for start_ms in _starts(
            sorted(docs_by_bucket), following, int(body.get("min_doc_count", 0))
        ):
            docs = docs_by_bucket.get(start_ms, set[int]())
            if len(docs) < int(body.get("min_doc_count", 0)):
                continue
            bucket = {
                "key_as_string": iso_of(start_ms),
                "key": start_ms,
                "doc_count": len(docs),
            }
            if inner is not None:
                more = f"{where} AND d.id IN (SELECT doc FROM vals WHERE field = ? AND num >= ? AND num < ?)"
                parameters = (*arguments, name, start_ms, following(start_ms))
                bucket |= self.run(inner, more, parameters, depth + 1)
            buckets.append(bucket)
        return {"buckets": buckets}


def _key(key: Any, kind: str | None) -> dict[str, Any]:
    if kind == "date":
        return {"key": int(key), "key_as_string": iso_of(int(key))}
    if kind == "boolean":
        return {"key": int(key), "key_as_string": "true" if key else "false"}
    if isinstance(key, float) and kind in ("byte", "short", "integer", "long"):
        return {"key": int(key)}
    return {"key": key}


def _order(order: Any) -> str:
    if order is None:
        return "n DESC, 1 ASC"
    asked = cast("list[Any]", order) if isinstance(order, list) else [order]
    parts: list[str] = []
    for one in asked:
        if not isinstance(one, dict) or len(cast("dict[str, Any]", one)) != 1:
            raise unreadable("[terms] failed to parse field [order]")
        ((name, way),) = cast("dict[str, Any]", one).items()
        column = {"_count": "n", "_key": "1", "_term": "1"}.get(name)
        if column is None:
            raise not_supported(f"the order of a terms aggregation by [{name}]")
        if way not in ("asc", "desc"):
            raise unreadable(f"Unknown order direction [{way}]")
        parts.append(f"{column} {way.upper()}")
    return ", ".join([*parts, "1 ASC"])


def _steps(body: dict[str, Any]) -> tuple[Callable[[int], int], Callable[[int], int]]:
    """Return two functions: the start of a time's bucket, and the start of the next bucket."""
    calendar, fixed = body.get("calendar_interval"), body.get("fixed_interval")
    either = body.get("interval")
    if either is not None:
        is_fixed = str(either)[:-1].isdecimal() and int(str(either)[:-1]) > 1
        calendar, fixed = (None, either) if is_fixed else (either, None)
    if (calendar is None) == (fixed is None):
        raise unreadable(
            "Invalid interval specified, must be non-null and non-empty, and one of two"
        )
    if calendar is not None:
        text = str(calendar)
        unit = _CALENDAR.get(text) or (text[1:] if text[:1] == "1" else "")
        if unit not in set(_CALENDAR.values()):
            raise unreadable(
                f"The supplied interval [{text}] could not be parsed as a calendar interval."
            )

        def moment(time_ms: int) -> datetime:
            return datetime.fromtimestamp(time_ms / 1000, UTC)

        return (
            lambda time_ms: int(floor_to(moment(time_ms), unit).timestamp() * 1000),
            lambda time_ms: int(shift(moment(time_ms), unit, 1).timestamp() * 1000),
        )
    step_ms = _parse_fixed_ms(str(fixed))
    return lambda time_ms: time_ms // step_ms * step_ms, lambda time_ms: time_ms + step_ms


def _parse_fixed_ms(text: str) -> int:
    digits = text.rstrip("smhd")
    unit = text[len(digits) :]
    if not digits.isdecimal() or len(digits) > 9 or unit not in _FIXED_MS or int(digits) == 0:
        raise unreadable(
            f"failed to parse setting [fixedInterval] with value [{text}] as a time value"
        )
    return int(digits) * _FIXED_MS[unit]


def _starts(starts_ms: list[int], following: Callable[[int], int], least: int) -> list[int]:
    """Return the starts of the buckets that have documents and, if `least` is 0, of the empty ones between them."""
    if least > 0 or not starts_ms:
        return starts_ms
    starts: list[int] = []
    start = starts_ms[0]
    while start <= starts_ms[-1]:
        starts.append(start)
        if len(starts) > MOST_BUCKETS:
            raise SearchError(
                400,
                "too_many_buckets_exception",
                f"Trying to create too many buckets. Must be less than or equal to: [{MOST_BUCKETS}].",
            )
        start = following(start)
    return starts


def _only(kind: str, options: Mapping[str, Any], known: set[str]) -> None:
    for name in options:
        if name not in known:
            raise not_supported(f"[{name}] of the aggregation [{kind}]")
