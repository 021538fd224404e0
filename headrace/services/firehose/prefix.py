"""The names of delivered objects: prefixes and their expressions, such as `!{timestamp:yyyy/MM/dd}`.

The expressions are `timestamp`, `firehose:random-string` and `firehose:error-output-type`. Timestamp patterns are
those of Java's DateTimeFormatter; letters that make no sense in a path are refused. Source:
docs.aws.amazon.com/firehose/latest/dev/s3-prefixes.html (documented, read 2026).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.core.ids import Ids
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.failures import DELIVERED, ERROR_TYPES
from headrace.services.firehose.limits import EVALUATED_PREFIX_CHARS
from headrace.services.firehose.state import DeliveryStream

RANDOM_CHARS = 11
ERROR_OUTPUT_TYPE = "!{firehose:error-output-type}"
_EXPRESSION = re.compile(r"!\{([^}]*)\}")
_RUN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")

_LETTERS: dict[str, Callable[[datetime, int], str]] = {
    "y": lambda at, n: f"{at.year % 100:02d}" if n == 2 else f"{at.year:0{n}d}",
    "u": lambda at, n: f"{at.year % 100:02d}" if n == 2 else f"{at.year:0{n}d}",
    "M": lambda at, n: at.strftime("%b" if n == 3 else "%B") if n > 2 else f"{at.month:0{n}d}",
    "d": lambda at, n: f"{at.day:0{n}d}",
    "D": lambda at, n: f"{at.timetuple().tm_yday:0{n}d}",
    "H": lambda at, n: f"{at.hour:0{n}d}",
    "h": lambda at, n: f"{at.hour % 12 or 12:0{n}d}",
    "m": lambda at, n: f"{at.minute:0{n}d}",
    "s": lambda at, n: f"{at.second:0{n}d}",
    "S": lambda at, n: f"{at.microsecond:06d}".ljust(9, "0")[:n],
    "E": lambda at, n: at.strftime("%a" if n < 4 else "%A"),
    "a": lambda at, _: at.strftime("%p"),
    "w": lambda at, n: f"{at.isocalendar().week:0{n}d}",
}


def name_objects(stream: DeliveryStream, oldest_ms: int, ids: Ids, now_ms: int) -> dict[str, str]:
    """Return a delivery's object keys by error type. The random parts are drawn here, once."""
    at = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d-%H-%M-%S")
    name = f"{stream.name}-{stream.version}-{at}-{ids.uuid()}"
    keys: dict[str, str] = {}
    for error_type in (DELIVERED, *ERROR_TYPES):
        text = stream.prefix
        if error_type:
            text = error_prefix(stream.prefix, stream.error_prefix, error_type)
        folder = evaluate(
            text,
            oldest_ms,
            time_zone=stream.time_zone,
            random=lambda: ids.hex(RANDOM_CHARS),
            error_type=error_type,
        )
        keys[error_type] = folder + name + ("" if error_type else _extension(stream))
    return keys


def _extension(stream: DeliveryStream) -> str:
    given = stream.destination.get("FileExtension")
    if given:
        return str(given)
    if stream.conversion is not None:
        return ".parquet"
    return ".gz" if stream.destination.get("CompressionFormat") == "GZIP" else ""


def check(prefix: str, error_prefix: str, *, time_zone: str) -> None:
    """Refuse the prefixes that CreateDeliveryStream refuses. Raises AwsError InvalidArgumentException."""
    if _EXPRESSION.search(prefix) and not error_prefix:
        raise invalid("ErrorOutputPrefix cannot be null or empty when Prefix contains expressions.")
    if ERROR_OUTPUT_TYPE in prefix:
        raise invalid("Prefix cannot contain !{firehose:error-output-type}.")
    if _EXPRESSION.search(error_prefix) and ERROR_OUTPUT_TYPE not in error_prefix:
        raise invalid(
            "ErrorOutputPrefix must contain at least one instance of !{firehose:error-output-type}"
            " when it contains expressions."
        )
    zone(time_zone)
    sample = datetime(2026, 1, 2, tzinfo=UTC)
    for name, text in (("Prefix", prefix), ("ErrorOutputPrefix", error_prefix)):
        if "!{" in _EXPRESSION.sub("", text):
            raise invalid(f"{name} can contain the sequence !{{ only in expressions.")
        filled = _fill(text, sample, lambda: "x" * RANDOM_CHARS, "format-conversion-failed")
        if len(filled) > EVALUATED_PREFIX_CHARS:
            raise invalid(
                f"{name} cannot be longer than {EVALUATED_PREFIX_CHARS} characters when evaluated."
            )


def zone(name: str) -> ZoneInfo:
    """Return a time zone. Raises AwsError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise invalid(f"Invalid CustomTimeZone: {name}") from error


def evaluate(
    text: str,
    at_ms: int,
    *,
    time_zone: str,
    random: Callable[[], str],
    error_type: str = "",
) -> str:
    """Return the prefix of an object whose oldest record arrived at `at_ms`.

    A prefix without a timestamp expression is followed by `yyyy/MM/dd/HH/`, as on AWS; an error prefix only when it
    has no expression at all. `random` is called for each random string.
    """
    at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone(time_zone))
    filled = _fill(text, at, random, error_type)
    if "!{timestamp:" in text or (error_type and _EXPRESSION.search(text)):
        return filled
    return filled + at.strftime("%Y/%m/%d/%H/")


def error_prefix(prefix: str, given: str, error_type: str) -> str:
    """Return the error prefix to evaluate: `given`, or else the error type as a folder under the prefix."""
    return given or f"{prefix}{error_type}/"


def _fill(text: str, at: datetime, random: Callable[[], str], error_type: str) -> str:
    return _EXPRESSION.sub(lambda match: _value(match.group(1), at, random, error_type), text)


def _value(expression: str, at: datetime, random: Callable[[], str], error_type: str) -> str:
    namespace, _, argument = expression.partition(":")
    if namespace == "timestamp" and argument:
        return java_format(argument, at)
    if namespace == "firehose" and argument == "random-string":
        return random()
    if namespace == "firehose" and argument == "error-output-type":
        return error_type
    if namespace in ("partitionKeyFromQuery", "partitionKeyFromLambda"):
        raise invalid("headrace does not support dynamic partitioning yet.")
    raise invalid(f"Invalid expression in prefix: !{{{expression}}}")


def java_format(pattern: str, at: datetime) -> str:
    """Return a time in a pattern of Java's DateTimeFormatter. Raises AwsError."""
    parts: list[str] = []
    for match in _RUN.finditer(pattern):
        text, letter = match.group(0), match.group(2)
        if match.group(1) is not None:
            parts.append(match.group(1).replace("''", "'") or "'")
        elif letter is not None:
            function = _LETTERS.get(letter)
            if function is None:
                raise invalid(f"Invalid timestamp pattern: {pattern}")
            parts.append(function(at, len(text)))
        else:
            parts.append(text)
    return "".join(parts)
