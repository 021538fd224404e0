"""Fields of documents: their types, explicit or by dynamic mapping, and the values that searches look up.

Source of the dynamic mapping: opensearch.org/docs/latest/field-types/ (documented). It recognises dates only in the
form strict_date_optional_time.

And dates: date math in queries (`now-1d/d`), and rounding to units of time. All times are UTC.

The errors of the small OpenSearch, in OpenSearch's form: a status, a type, and a reason.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

INTEGERS = {"byte": 7, "short": 15, "integer": 31, "long": 63}
NUMBERS = frozenset({*INTEGERS, "float", "double", "half_float"})
TYPES = frozenset({*NUMBERS, "text", "keyword", "date", "boolean", "object"})
KEYWORD_CHARS = 256
MOST_FIELDS = 1000
MOST_DEPTH = 20
# Every part is bounded, so that a match cannot take long.
_DATE = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:T(\d{2})(?::(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?(Z|[+-]\d{2}:?\d{2})?)?"
)

Mapping_ = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Value:
    """A field's value by which searches find a document: a number, a keyword, or words."""

    field: str
    number: float | None = None
    keyword: str | None = None
    words: str | None = None


def date_ms(text: str) -> int | None:
    """Return the epoch milliseconds of an ISO date or time, in UTC if it has no zone; None if it is neither."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(
            *(int(part or 0) for part in (year, month, day, hour, minute, second)), tzinfo=UTC
        )
    except ValueError:
        return None
    millis = int(((fraction or "") + "000")[:3])
    return int(moment.timestamp()) * 1000 + millis - _offset_ms(zone)


def _offset_ms(zone: str | None) -> int:
    if not zone or zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return (-minutes if zone[0] == "-" else minutes) * 60_000


def check_mapping(properties: Mapping[str, Any], depth: int = 0) -> None:
    """Raise SearchError for unsupported types and for a malformed mapping."""
    if depth > MOST_DEPTH:
        raise _bad("", "too deep", f"a mapping is at most {MOST_DEPTH} deep")
    for name, definition in properties.items():
        if not isinstance(definition, dict):
            raise _bad(name, "mapping", "Expected map for property")
        field = cast("dict[str, Any]", definition)
        kind = field.get("type", "object")
        if kind not in TYPES:
            raise not_supported(f"fields of type [{kind}] (field [{name}])")
        check_mapping(field.get("properties") or {}, depth + 1)
        check_mapping(field.get("fields") or {}, depth + 1)


def flat(properties: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and definition of each field with a type; an object yields its fields."""
    for name, field in properties.items():
        path = prefix + name
        if "properties" in field or field.get("type") == "object":
            yield from flat(field.get("properties") or {}, f"{path}.")
            continue
        yield path, field
        yield from flat(field.get("fields") or {}, f"{path}.")


class Reader:
    """Turns a document into values, and adds its new fields to the mapping. For one document on one thread."""

    def __init__(self, mapping: Mapping_) -> None:
        """Take an index's mapping, with its `properties`."""
        self.mapping = mapping
        self._before: Mapping_ | None = None

    @property
    def has_grown(self) -> bool:
        """Whether the mapping has new fields."""
        return self._before is not None

    def values(self, document: Mapping[str, Any]) -> list[Value]:
        """Return a document's values. Raises SearchError, and then leaves the mapping unchanged."""
        try:
            values_there = list(self._object(document, self.mapping, "", 0))
            if self.has_grown and sum(1 for _ in flat(self.mapping["properties"])) > MOST_FIELDS:
                raise SearchError(
                    400,
                    "illegal_argument_exception",
                    f"Limit of total fields [{MOST_FIELDS}] has been exceeded",
                )
        except SearchError:
            if self._before is not None:
                self.mapping.clear()
                self.mapping.update(self._before)
            raise
        return values_there

    def _grow(self, properties: Mapping_, name: str, field: Mapping_) -> Mapping_:
        if self._before is None:
            self._before = copy.deepcopy(self.mapping)
        properties[name] = field
        return field

    def _object(
        self, members: Mapping[str, Any], mapping: Mapping_, prefix: str, depth: int
    ) -> Iterator[Value]:
        if depth > MOST_DEPTH:
            raise _bad(prefix, "object", f"The depth of the field has exceeded [{MOST_DEPTH}]")
        properties = mapping.get("properties")
        if properties is None:
            properties = self._grow(mapping, "properties", {})
        for name, value in members.items():
            inner, leaf = self._holder(properties, name)
            for item in _items(value):
                if item is not None:
                    yield from self._value(item, inner, leaf, prefix + name, depth)

    def _holder(self, properties: Mapping_, name: str) -> tuple[Mapping_, str]:
        """Return the object that holds a field: `a.b` is the field b of the object a."""
        *heads, leaf = name.split(".")
        if not leaf or not all(heads):
            raise _bad(name, "object", "field name cannot contain only whitespace or be empty")
        for head in heads:
            field = properties.get(head)
            if field is None:
                field = self._grow(properties, head, {"properties": {}})
            if "properties" not in field:
                raise _bad(name, str(field.get("type")), f"[{head}] is no object")
            properties = field["properties"]
        return properties, leaf

    def _value(
        self, item: Any, properties: Mapping_, name: str, path: str, depth: int
    ) -> Iterator[Value]:
        field: Mapping_ | None = properties.get(name)
        if isinstance(item, dict):
            if field is None:
                field = self._grow(properties, name, {"properties": {}})
            elif "properties" not in field and field.get("type") != "object":
                raise _bad(path, field["type"], "Can't get text on a START_OBJECT")
            yield from self._object(cast("Mapping_", item), field, f"{path}.", depth + 1)
            return
        if field is None:
            field = self._grow(properties, name, _guess(item))
        if "properties" in field or field.get("type") == "object":
            raise SearchError(
                400,
                "mapper_parsing_exception",
                f"object mapping for [{path}] tried to parse field [{name}] as object, but found a concrete value",
            )
        yield from _leaf(item, field, path)


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _items(item)
    else:
        yield value


def _guess(item: Any) -> Mapping_:
    if isinstance(item, bool):
        return {"type": "boolean"}
    if isinstance(item, int):
        return {"type": "long"}
    if isinstance(item, float):
        return {"type": "float"}
    if date_ms(item) is not None:
        return {"type": "date"}
    keyword = {"type": "keyword", "ignore_above": KEYWORD_CHARS}
    return {"type": "text", "fields": {"keyword": keyword}}


def _leaf(item: Any, field: Mapping_, path: str) -> Iterator[Value]:
    kind = field["type"]
    if kind == "text":
        yield Value(path, words=_text(item))
    elif kind == "keyword":
        text = _text(item)
        if len(text) <= field.get("ignore_above", 32_766):
            yield Value(path, keyword=text)
    else:
        yield Value(path, number=number_of(item, kind, path))
    more: dict[str, Mapping_] = field.get("fields") or {}
    for name, inner in more.items():
        yield from _leaf(item, inner, f"{path}.{name}")


def _text(item: Any) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    return item if isinstance(item, str) else json.dumps(item)


def number_of(item: Any, kind: str, path: str) -> float:
    """Return a value as searches look it up: a number, or epoch milliseconds for a date. Raises SearchError."""
    if kind == "boolean":
        if item in (True, "true"):
            return 1.0
        if item in (False, "false", ""):
            return 0.0
        raise _bad(
            path, kind, f"Failed to parse value [{item}] as only [true] or [false] are allowed."
        )
    if kind == "date":
        return float(_moment_ms(item, path))
    if isinstance(item, bool):
        raise _bad(path, kind, f"Current token is a boolean: [{item}]")
    try:
        number = float(item)
    except (TypeError, ValueError, OverflowError) as error:
        raise _bad(path, kind, f'For input string: "{item}"') from error
    if not math.isfinite(number):
        raise _bad(path, kind, f"[{kind}] supports only finite values, but got [{item}]")
    if kind in INTEGERS and abs(number) > 2.0 ** INTEGERS[kind]:
        raise _bad(path, kind, f"Value [{item}] is out of range for a {kind}")
    # OpenSearch coerces a document's decimal to an integer field by truncation.
    return float(int(number)) if kind in INTEGERS else number


def _moment_ms(item: Any, path: str) -> int:
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    moment_ms = date_ms(item) if isinstance(item, str) else None
    if (
        moment_ms is None
        and isinstance(item, str)
        and item.lstrip("-").isdecimal()
        and len(item) < 20
    ):
        moment_ms = int(item)
    if moment_ms is None:
        raise _bad(
            path,
            "date",
            f"failed to parse date field [{item}] with format [strict_date_optional_time||epoch_millis]",
        )
    return moment_ms


def _bad(path: str, kind: str, why: str) -> SearchError:
    return SearchError(
        400,
        "mapper_parsing_exception",
        f"failed to parse field [{path}] of type [{kind}]",
        caused_by={"type": "illegal_argument_exception", "reason": why},
    )


_UNITS_MS = {
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "H": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}


def date_math_ms(text: str, now_ms: int, *, up: bool = False) -> int | None:
    """Return the time of `now-15m`, `now/d` or `2026-01-01||+1M/d`; `up` rounds up; None for any other text."""
    if text.startswith("now"):
        start, rest = now_ms, text[3:]
    else:
        date, separator, rest = text.partition("||")
        base_ms = date_ms(date)
        if not separator or base_ms is None:
            return None
        start = base_ms
    moment = datetime.fromtimestamp(start / 1000, UTC)
    at = 0
    while at < len(rest):
        end = at + 1
        while end < len(rest) and rest[end].isdecimal():
            end += 1
        sign, digits, unit = rest[at], rest[at + 1 : end], rest[end : end + 1]
        if sign not in "+-/" or not unit or len(digits) > 6:
            return None
        try:
            if sign == "/":
                moment = floor_to(moment, unit)
                if up:
                    moment = shift(moment, unit, 1) - timedelta(milliseconds=1)
            else:
                moment = shift(moment, unit, int(digits or 1) * (1 if sign == "+" else -1))
        except (ValueError, OverflowError):
            return None
        at = end + 1
    return int(moment.timestamp() * 1000)


def floor_to(moment: datetime, unit: str) -> datetime:
    """Round a moment down to a unit. Weeks begin on Monday. Raises ValueError for an unknown unit."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "s":
            return moment.replace(microsecond=0)
        case "m":
            return moment.replace(second=0, microsecond=0)
        case "h" | "H":
            return moment.replace(minute=0, second=0, microsecond=0)
        case "d":
            return day
        case "w":
            return day - timedelta(days=day.weekday())
        case "M":
            return day.replace(day=1)
        case "q":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case "y":
            return day.replace(month=1, day=1)
        case _:
            raise ValueError(unit)


def shift(moment: datetime, unit: str, count: int) -> datetime:
    """Return a moment some units later. Raises ValueError for an unknown unit, OverflowError beyond the calendar."""
    if unit in _UNITS_MS:
        return moment + timedelta(milliseconds=_UNITS_MS[unit] * count)
    months = {"M": 1, "q": 3, "y": 12}.get(unit)
    if months is None:
        raise ValueError(unit)
    total = moment.year * 12 + moment.month - 1 + months * count
    year, month = divmod(total, 12)
    next_month = datetime(year + (month == 11), (month + 1) % 12 + 1, 1, tzinfo=UTC)
    last_day = (next_month - timedelta(days=1)).day
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last_day))


class SearchError(Exception):
    """A request is refused. `type_` is OpenSearch's error type; `root` is its root cause if that is another one."""

    def __init__(self, status: int, type_: str, reason: str, **members: Any) -> None:
        super().__init__(reason)
        self.status = status
        self.type = type_
        self.reason = reason
        self.members = members
        self.root: dict[str, Any] | None = None

    def cause(self) -> dict[str, Any]:
        """Return the `error` member of a `_bulk` item."""
        return {"type": self.type, "reason": self.reason, **self.members}

    def body(self) -> dict[str, Any]:
        """Return the answer's body."""
        root = self.root or self.cause()
        return {"error": {"root_cause": [root], **self.cause()}, "status": self.status}


def not_supported(what: str) -> SearchError:
    """Return the error for a feature that OpenSearch has and headrace's index has not; it names the feature."""
    return SearchError(
        400,
        "not_supported_by_headrace",
        f"headrace's own index does not support {what}; a real OpenSearch does: headrace up --opensearch URL",
    )


def no_index(name: str) -> SearchError:
    """Return the error for a missing index."""
    return SearchError(
        404, "index_not_found_exception", f"no such index [{name}]", index=name, index_uuid="_na_"
    )


def unreadable(reason: str) -> SearchError:
    """Return the error for a malformed body or query."""
    return SearchError(400, "parsing_exception", reason)


def too_many_clauses(reason: str) -> SearchError:
    """Return the error for a query with too many clauses.

    Status 400: https://github.com/opensearch-project/OpenSearch/pull/21725 (documented); older versions answer 500.
    """
    return SearchError(400, "too_many_clauses", reason)


def bad_argument(reason: str, **members: Any) -> SearchError:
    """Return the error for an argument that OpenSearch refuses."""
    return SearchError(400, "illegal_argument_exception", reason, **members)


def not_valid(*reasons: str) -> SearchError:
    """Return the error for a request that lacks something or contradicts itself."""
    numbered = "".join(f"{number}: {reason};" for number, reason in enumerate(reasons, 1))
    return SearchError(400, "action_request_validation_exception", f"Validation Failed: {numbered}")
