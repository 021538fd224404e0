"""The keys of delivered objects: evaluates prefixes with expressions such as `!{timestamp:yyyy/MM/dd}`.

The expressions are `timestamp`, `firehose:random-string`, `firehose:error-output-type` and, with dynamic partitioning,
`partitionKeyFromQuery` and `partitionKeyFromLambda`. Timestamp patterns are those of Java's DateTimeFormatter; letters
that are useless in a path are refused. Source: docs.aws.amazon.com/firehose/latest/dev/s3-prefixes.html (documented,
read 2026); the sentences of refusals were observed by others (us-east-1, 2026).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.core.ids import Ids
from headrace.core.values import section
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.failures import DELIVERED, SOURCE_BACKUP
from headrace.services.firehose.limits import EVALUATED_PREFIX_CHARS, EXTENSIONS
from headrace.services.firehose.state import ObjectNaming

RANDOM_CHARS = 11
ERROR_OUTPUT_TYPE = "!{firehose:error-output-type}"
QUERY = "partitionKeyFromQuery"
LAMBDA = "partitionKeyFromLambda"
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


def name_objects(
    naming: ObjectNaming,
    kinds: Sequence[str],
    oldest_ms: int,
    ids: Ids,
    now_ms: int,
    values: Sequence[str] = (),
) -> dict[str, str]:
    """Return a delivery's object keys by kind. Their random parts are drawn here, once.

    Args:
        naming: what the delivery stream says of the names.
        kinds: what the delivery may write: see `failures`.
        oldest_ms: when the first of the records arrived.
        ids: draws the random parts.
        now_ms: the time in the objects' names.
        values: the values of the prefix's partition expressions, in order.
    """
    at = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d-%H-%M-%S")
    name = f"{naming.begin}-{at}-{ids.uuid()}"
    extension = _find_extension(naming)
    keys: dict[str, str] = {}
    for kind in kinds:
        text, prefix_parts, error_type = naming.prefix, list(values), ""
        if kind == SOURCE_BACKUP:
            text, prefix_parts = str(naming.backup.get("Prefix") or ""), []
        elif kind:
            error_type = kind.partition(":")[0]
            own = naming.own_errors.get(kind) or naming.error_prefix
            text, prefix_parts = build_error_prefix(naming.prefix, own, error_type), []
        folder = evaluate(
            text,
            oldest_ms,
            time_zone=naming.time_zone,
            random=lambda: ids.hex(RANDOM_CHARS),
            error_type=error_type,
            values=prefix_parts,
        )
        suffix = ""
        if kind == DELIVERED:
            suffix = extension
        elif kind == SOURCE_BACKUP:
            suffix = EXTENSIONS.get(str(naming.backup.get("CompressionFormat")), "")
        keys[kind] = folder + name + suffix
    return keys


def _find_extension(naming: ObjectNaming) -> str:
    extension = naming.s3.get("FileExtension")
    if extension:
        return str(extension)
    if naming.conversion is not None:
        serializer = section(naming.conversion, "OutputFormatConfiguration", "Serializer")
        return ".orc" if "OrcSerDe" in serializer else ".parquet"
    return EXTENSIONS.get(str(naming.s3.get("CompressionFormat")), "")


def partition_names(prefix: str) -> list[tuple[str, str]]:
    """Return the partition expressions of a prefix, in order: namespace and key."""
    expressions = [match.group(1).partition(":") for match in _EXPRESSION.finditer(prefix)]
    return [(namespace, name) for namespace, _, name in expressions if namespace in (QUERY, LAMBDA)]


def check(
    prefix: str, error_prefix: str, *, time_zone: str = "UTC", partitioned: bool = False
) -> None:
    """Raise AwsError InvalidArgumentException for a prefix that CreateDeliveryStream refuses."""
    if _EXPRESSION.search(prefix) and not error_prefix:
        raise invalid("ErrorOutputPrefix cannot be null or empty when Prefix contains expressions.")
    if ERROR_OUTPUT_TYPE in prefix:
        raise invalid(f"Prefix must not contain any occurrence of {ERROR_OUTPUT_TYPE}")
    if _EXPRESSION.search(error_prefix) and ERROR_OUTPUT_TYPE not in error_prefix:
        raise invalid(
            "ErrorOutputPrefix must contain at least one instance of !{firehose:error-output-type}"
            " when it contains expressions."
        )
    if partition_names(error_prefix):
        raise invalid("Dynamic Partitioning Namespaces can't be part of an error prefix expression")
    names = partition_names(prefix)
    if names and not partitioned:
        raise invalid(
            "Dynamic Partitioning Namespaces can only be part of a prefix expression when Dynamic Partitioning is"
            " enabled."
        )
    if partitioned and not names:
        raise invalid(
            "S3 Prefix should contain Dynamic Partitioning namespaces when Dynamic Partitioning is enabled"
        )
    find_zone(time_zone)
    sample = datetime(2026, 1, 2, tzinfo=UTC)
    for label, name, text in (
        ("prefix", "Prefix", prefix),
        ("ErrorOutputPrefix", "ErrorOutputPrefix", error_prefix),
    ):
        if "!{" in _EXPRESSION.sub("", text):
            raise invalid("Invalid expression usage")
        try:
            filled = _fill(text, sample, lambda: "x" * RANDOM_CHARS, "failed", [""] * len(names))
        except _BadValue as error:
            raise invalid(
                f"Invalid conversion character used in the value of the expression in {name}"
            ) from error
        if len(filled) > EVALUATED_PREFIX_CHARS:
            raise invalid(
                f"Length of evaluated {label} cannot be greater than {EVALUATED_PREFIX_CHARS}"
            )


class _BadValue(ValueError):
    """The value of an expression is not valid in its namespace."""


def find_zone(name: str) -> ZoneInfo:
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
    values: Sequence[str] = (),
) -> str:
    """Return the prefix of an object whose oldest record arrived at `at_ms`.

    A prefix without a timestamp expression is followed by `yyyy/MM/dd/HH/`, as on AWS; an error prefix only when it
    has no expression at all. `random` is called for each random string; `values` are those of partition expressions.
    """
    at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(find_zone(time_zone))
    filled = _fill(text, at, random, error_type, values)
    if "!{timestamp:" in text or (error_type and _EXPRESSION.search(text)):
        return filled
    return filled + at.strftime("%Y/%m/%d/%H/")


def build_error_prefix(prefix: str, prefix_text: str, error_type: str) -> str:
    """Return the error prefix to evaluate: `prefix_text`, or else the error type as a folder under the prefix."""
    return prefix_text or f"{prefix}{error_type}/"


def _fill(
    text: str, at: datetime, random: Callable[[], str], error_type: str, values: Sequence[str]
) -> str:
    values_left = iter(values)
    return _EXPRESSION.sub(
        lambda match: _evaluate_expression(match.group(1), at, random, error_type, values_left),
        text,
    )


def _evaluate_expression(
    expression: str,
    at: datetime,
    random: Callable[[], str],
    error_type: str,
    values: Iterator[str],
) -> str:
    namespace, colon, argument = expression.partition(":")
    if not colon:
        raise invalid("Invalid expression usage")
    match namespace:
        case "timestamp":
            return format_java_time(argument, at)
        case "firehose" if argument == "random-string":
            return random()
        case "firehose" if argument == "error-output-type":
            return error_type
        case "firehose":
            raise _BadValue(argument)
        case "partitionKeyFromQuery" | "partitionKeyFromLambda":
            return next(values)
        case _:
            raise invalid(f"Namespace to the left of colon ({namespace}) is an invalid keyword!")


def format_java_time(pattern: str, at: datetime) -> str:
    """Return a time in a pattern of Java's DateTimeFormatter. Raises ValueError."""
    parts: list[str] = []
    for match in _RUN.finditer(pattern):
        text, letter = match.group(0), match.group(2)
        if match.group(1) is not None:
            parts.append(match.group(1).replace("''", "'") or "'")
        elif letter is not None:
            function = _LETTERS.get(letter)
            if function is None:
                raise _BadValue(pattern)
            parts.append(function(at, len(text)))
        else:
            parts.append(text)
    return "".join(parts)
