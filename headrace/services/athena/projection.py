"""Partition projection: finds a table's partitions by the objects that are there, not by all that there could be.

A key that stands in the place where the template of locations leads, with values within the ranges, is in a partition.
Pure functions. Source: docs.aws.amazon.com/athena/latest/ug/partition-projection.html (documented).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

# A pattern's letters -> how many digits they take, and strptime's.
_DATE_LETTERS = {
    "yyyy": (4, "%Y"), "yy": (2, "%y"), "MM": (2, "%m"), "dd": (2, "%d"), "HH": (2, "%H"), "mm": (2, "%M"),
    "ss": (2, "%S"),
}  # fmt: skip
_UNITS = {
    "YEARS": 365 * 86_400, "MONTHS": 30 * 86_400, "WEEKS": 7 * 86_400, "DAYS": 86_400, "HOURS": 3600,
    "MINUTES": 60, "SECONDS": 1,
}  # fmt: skip


class ProjectionRefused(ValueError):
    """A table's projection is not valid; the message is Athena's reason."""


def is_projected(parameters: Mapping[str, str]) -> bool:
    """Whether a table's parameters enable projection."""
    return parameters.get("projection.enabled", "").lower() == "true"


@dataclass(frozen=True, slots=True)
class _Literal:
    text: str


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a key in the template.

    Attributes:
        take: returns how many characters of a text are its value, 0 for none.
        digits: how many an integer has at least.
    """

    key: str
    take: Callable[[str], int]
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Projection:
    """How a table's locations are made of its partition keys' values.

    Attributes:
        prefix: what all locations begin with, in the form `s3://bucket/...`.
    """

    prefix: str
    keys: tuple[str, ...]
    parts: tuple[_Literal | _Place, ...]

    def values_of(self, uri: str) -> list[str] | None:
        """Return the values of the partition in which an object lies; None when it is in none."""
        values: dict[str, str] = {}
        rest = uri
        for part in self.parts:
            if isinstance(part, _Literal):
                if not rest.startswith(part.text):
                    return None
                rest = rest[len(part.text) :]
                continue
            length = part.take(rest)
            if not length or values.setdefault(part.key, rest[:length]) != rest[:length]:
                return None
            rest = rest[length:]
        return [values[key] for key in self.keys]

    def location_of(self, values: Mapping[str, str]) -> str | None:
        """Return the location of the partition with these values, by key; None when there is no such partition."""
        texts = [
            part.text if isinstance(part, _Literal) else values[part.key].zfill(part.digits)
            for part in self.parts
        ]
        location = "".join(texts)
        return None if self.values_of(location) is None else location


def read_projection(
    parameters: Mapping[str, str], keys: Sequence[str], location: str, now: datetime
) -> Projection:
    """Read a table's projection. Raises ProjectionRefused.

    Args:
        parameters: the table's.
        keys: the names of its partition keys, in order.
        location: the table's, in the form `s3://bucket/...`.
        now: the cloud's time, UTC without a zone: ranges name it.
    """
    template = parameters.get("storage.location.template") or (
        location.rstrip("/") + "".join(f"/{key}=${{{key}}}" for key in keys)
    )
    takers = {key: _taker(key, parameters, now) for key in keys}
    parts: list[_Literal | _Place] = []
    rest = template.rstrip("/") + "/"
    while rest:
        literal, opened, rest = rest.partition("${")
        if literal:
            parts.append(_Literal(literal))
        if not opened:
            break
        name, closed, rest = rest.partition("}")
        if not closed or name not in takers:
            raise ProjectionRefused(
                f"INVALID_TABLE_PROPERTY: The storage.location.template names {name}, which is no partition key"
            )
        digits = parameters.get(f"projection.{name}.digits", "")
        # Digits that are no number were refused with the range.
        parts.append(_Place(name, takers[name], int(digits) if digits.isdecimal() else 0))
    missing = [
        key for key in keys if not any(isinstance(p, _Place) and p.key == key for p in parts)
    ]
    if missing:
        raise ProjectionRefused(
            f"INVALID_TABLE_PROPERTY: The storage.location.template has no place for {missing[0]}"
        )
    return Projection(template.partition("${")[0], tuple(keys), tuple(parts))


def _taker(key: str, parameters: Mapping[str, str], now: datetime) -> Callable[[str], int]:
    def setting(name: str) -> str:
        return parameters.get(f"projection.{key}.{name}", "")

    kind = setting("type").lower()
    if kind == "enum":
        values = sorted(
            (value.strip() for value in setting("values").split(",")), key=len, reverse=True
        )
        return lambda text: next(
            (len(value) for value in values if value and _is_segment(text, value)), 0
        )
    if kind == "integer":
        return _integer_taker(key, setting("range"), setting("digits"))
    if kind == "date":
        return _date_taker(key, setting("range"), setting("format"), now)
    if kind == "injected":
        return lambda text: len(text.partition("/")[0])
    raise ProjectionRefused(
        f"INVALID_TABLE_PROPERTY: Table property projection.{key}.type is missing or no type of projection"
    )


def _is_segment(text: str, value: str) -> bool:
    """Whether a text begins with a value which does not go on."""
    return text.startswith(value) and not text[len(value) : len(value) + 1].isalnum()


def _bounds(key: str, text: str) -> tuple[str, str]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2:
        raise ProjectionRefused(
            f"INVALID_TABLE_PROPERTY: Table property projection.{key}.range needs two values: {text}"
        )
    return parts[0], parts[1]


def _integer_taker(key: str, range_text: str, digits: str) -> Callable[[str], int]:
    low, high = _bounds(key, range_text)
    try:
        least, most, width = int(low), int(high), int(digits or 0)
    except ValueError:
        raise ProjectionRefused(
            f"INVALID_TABLE_PROPERTY: projection.{key} has a range or digits that are no numbers"
        ) from None

    def take(text: str) -> int:
        length = next(
            (
                i
                for i, sign in enumerate(text)
                if not (sign.isdecimal() or (i == 0 and sign == "-"))
            ),
            len(text),
        )
        if width:
            length = min(length, width)
        if not 0 < length <= 20 or text[:length] == "-":
            return 0
        return length if least <= int(text[:length]) <= most else 0

    return take


def _date_taker(key: str, range_text: str, form: str, now: datetime) -> Callable[[str], int]:
    pattern, width = _date_pattern(key, form)
    low, high = (_moment(key, text, pattern, now) for text in _bounds(key, range_text))

    def take(text: str) -> int:
        try:
            moment = datetime.strptime(text[:width], pattern)  # noqa: DTZ007 - values have no zone
        except ValueError:
            return 0
        return width if low <= moment <= high else 0

    return take


def _date_pattern(key: str, form: str) -> tuple[str, int]:
    """Return a pattern of Java's as strptime's, and how many characters a value has."""
    parts: list[str] = []
    width, at = 0, 0
    while at < len(form):
        letters = next((name for name in _DATE_LETTERS if form.startswith(name, at)), None)
        if letters is not None:
            digits, directive = _DATE_LETTERS[letters]
            parts.append(directive)
            width, at = width + digits, at + len(letters)
            continue
        sign = form[at]
        if sign == "'":
            end = form.find("'", at + 1)
            literal = form[at + 1 : end] if end > 0 else ""
            at = end + 1 if end > 0 else len(form)
        elif sign.isalpha():
            raise ProjectionRefused(
                f"NOT_SUPPORTED: headrace does not know the letter {sign} of projection.{key}.format {form}"
            )
        else:
            literal, at = sign, at + 1
        parts.append(literal.replace("%", "%%"))
        width += len(literal)
    if not parts:
        raise ProjectionRefused(
            f"INVALID_TABLE_PROPERTY: Table property projection.{key}.format is missing"
        )
    return "".join(parts), width


def _moment(key: str, text: str, pattern: str, now: datetime) -> datetime:
    """Read a range's end: a value, or `NOW`, `NOW-3YEARS` and so on."""
    upper = text.upper().replace(" ", "")
    if upper.startswith("NOW"):
        return _relative(key, upper[3:], now)
    try:
        return datetime.strptime(text, pattern)  # noqa: DTZ007 - values have no zone
    except ValueError:
        raise ProjectionRefused(
            f"INVALID_TABLE_PROPERTY: projection.{key}.range has {text}, which is not of its format"
        ) from None


def _relative(key: str, text: str, now: datetime) -> datetime:
    if not text:
        return now
    digits = "".join(sign for sign in text[1:] if sign.isdecimal())
    unit = text[1 + len(digits) :]
    unit = unit if unit.endswith("S") else f"{unit}S"
    if text[0] not in "+-" or not 0 < len(digits) < 6 or unit not in _UNITS:
        raise ProjectionRefused(f"INVALID_TABLE_PROPERTY: projection.{key}.range has NOW{text}")
    step = timedelta(seconds=int(digits) * _UNITS[unit])
    try:
        return now + step if text[0] == "+" else now - step
    except OverflowError:
        return datetime(9999, 12, 31) if text[0] == "+" else datetime(1, 1, 1)  # noqa: DTZ001 - as `now`
