"""The keys of delivered objects: evaluates prefixes with expressions such as `!{timestamp:yyyy/MM/dd}`.

The expressions are `timestamp`, `firehose:random-string`, `firehose:error-output-type` and, with dynamic partitioning,
`partitionKeyFromQuery` and `partitionKeyFromLambda`. Source: docs.aws.amazon.com/firehose/latest/dev/s3-prefixes.html
(documented, read 2026); the sentences of refusals were observed by others (us-east-1, 2026).

Dynamic partitioning: a record's partition keys, from the query and the function, determine its buffer.

Sources: docs.aws.amazon.com/firehose/latest/dev/dynamic-partitioning.html and its pages (documented); error codes and
sentences are from users' error output (observed by others).

Finds the keys in the result of a JQ query from its text, if the query is a single object between braces.

Firehose refuses a query with keys that the prefix does not use (observed by the CDK's authors: the sentence stands in
aws-cdk's source, packages/aws-cdk-lib/aws-kinesisfirehose/lib/metadata-extraction-processor.ts, 2025). How it finds
the keys is unknown; headrace accepts a query whose keys are only known by running it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from headrace.core.ids import Ids
from headrace.core.values import get_mapping, section
from headrace.services.firehose.errors import EVALUATED_PREFIX_CHARS, EXTENSIONS, invalid
from headrace.services.firehose.java_times import BadPattern, format_java_time
from headrace.services.firehose.queries import Found, Queries, is_json
from headrace.services.firehose.records import DELIVERED, SOURCE_BACKUP, FailedRecord, Record
from headrace.services.firehose.state import (
    DeliveryStream,
    ObjectNaming,
    is_partitioned,
    processors_of,
)

RANDOM_CHARS = 11
ERROR_OUTPUT_TYPE = "!{firehose:error-output-type}"
QUERY = "partitionKeyFromQuery"
LAMBDA = "partitionKeyFromLambda"
_EXPRESSION = re.compile(r"!\{([^}]*)\}")


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
        kinds: what the delivery may write: see `records.py`.
        oldest_ms: when the first of the records arrived.
        ids: draws the random parts.
        now_ms: the time in the objects' names.
        values: the values of the prefix's partition expressions, in order.
    """
    extension = _find_extension(naming)
    # By kind, what stands before and after the name that all have in common.
    around: dict[str, tuple[str, str]] = {}
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
        around[kind] = folder, suffix
    at = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d-%H-%M-%S")
    name = f"{naming.begin}-{at}-{ids.uuid()}"
    return {kind: f"{folder}{name}{suffix}" for kind, (folder, suffix) in around.items()}


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
        except (_BadValue, BadPattern) as error:
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


_KEY = re.compile(r'\s*(?:\$?([A-Za-z_][A-Za-z0-9_]*)|"([^"\\]*)")\s*(?::|$)')
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def find_keys(query: str) -> set[str] | None:
    """Return the keys of a query that is one object; None for any other query, or if a key is computed."""
    text = query.strip()
    if not text.startswith("{") or "#" in text:
        return None
    entries = list(_split_entries(text))
    keys: set[str] = set()
    for entry in entries:
        match = _KEY.match(entry)
        if match is None:
            return None
        keys.add(match.group(1) or match.group(2))
    return keys or None


def _split_entries(text: str) -> Iterator[str]:
    """Yield the object's entries, which outermost commas separate. If the braces end early, yield an invalid entry."""
    closing: list[str] = []
    at = begun = 0
    while at < len(text):
        sign = text[at]
        if sign == '"':
            whole = _TEXT.match(text, at)
            if whole is None or "\\(" in whole.group():
                yield "("
                return
            at = whole.end()
            continue
        if sign in _CLOSING:
            closing.append(_CLOSING[sign])
            begun = at + 1 if len(closing) == 1 else begun
        elif closing and sign == closing[-1]:
            closing.pop()
            if not closing:
                yield text[begun:at]
                if text[at + 1 :].strip():
                    yield "("
                return
        elif sign == "," and len(closing) == 1:
            yield text[begun:at]
            begun = at + 1
        at += 1
    yield "("


EXTRACTION_FAILED = "DynamicPartitioning.MetadataExtractionFailed"
LIMIT_EXCEEDED = "DynamicPartitioning.ActivePartitionsLimitExceeded"
# Where records over the limit go: docs.aws.amazon.com/firehose/latest/dev/buffering.html (documented).
LIMIT_OUTPUT = "activePartitionExceeded"
LIMIT_SENTENCE = "The number of active partitions has exceeded the configured limit"
_EMPTY = "partitionKeys values must not be null or empty"
_NOT_JSON = "Non JSON record provided"
MOST_KEYS = 50
_MOST_KNOWN = 20_000
_encode = msgspec.json.Encoder().encode


def build_keys(stream: DeliveryStream, queries: Queries) -> Keys | None:
    """Return a stream's `Keys`; None without dynamic partitioning."""
    if not is_partitioned(stream.destination):
        return None
    parameters = processors_of(stream.destination).get("MetadataExtraction", {})
    return Keys(
        partition_names(stream.prefix), parameters.get("MetadataExtractionQuery", ""), queries
    )


class Keys:
    """Sets the partition of records: the values of the prefix's expressions, as a JSON list."""

    def __init__(self, names: Sequence[tuple[str, str]], query: str, queries: Queries) -> None:
        self._names = names
        self._query = query
        self._queries = queries
        self._known: dict[tuple[str, ...], str] = {}

    @property
    def has_query(self) -> bool:
        """Whether the stream has a query."""
        return bool(self._query)

    def assign(self, records: list[Record]) -> tuple[list[Record], list[FailedRecord]]:
        """Return the records with their partition set, and the failed records."""
        failed: list[FailedRecord] = []
        results: list[Found] = []
        if self._query:
            good = [record for record in records if is_json(record.data)]
            if len(good) < len(records):
                kept = set(map(id, good))
                failed += [_build_failed_record(r, _NOT_JSON) for r in records if id(r) not in kept]
            records = good
            results = self._queries.run(self._query, [record.data for record in records])
        else:
            results = [{}] * len(records)
        partitioned: list[Record] = []
        for record, keys in zip(records, results, strict=True):
            if isinstance(keys, str):
                failed.append(_build_failed_record(record, keys))
                continue
            partition = self._render_partition(record, keys)
            if partition is None:
                failed.append(_build_failed_record(record, _EMPTY))
                continue
            record.partition = partition
            partitioned.append(record)
        return partitioned, failed

    def _render_partition(self, record: Record, query_values: dict[str, str | None]) -> str | None:
        function_keys = record.keys or {}
        values = tuple(
            [
                query_values.get(name) if namespace == QUERY else function_keys.get(name)
                for namespace, name in self._names
            ]
        )
        if not all(values):
            return None
        texts = cast("tuple[str, ...]", values)
        known = self._known.get(texts)
        if known is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            known = self._known[texts] = _encode(texts).decode()
        return known


def list_values(partition: str) -> list[str]:
    """Return the values of a partition, in the order of the prefix's expressions."""
    return msgspec.json.decode(partition, type=list[str]) if is_values(partition) else []


def is_values(partition: str) -> bool:
    """Return whether a buffer belongs to a partition; others hold errors or all records."""
    return partition.startswith("[")


def _build_failed_record(record: Record, message: str) -> FailedRecord:
    return FailedRecord(record, EXTRACTION_FAILED, message)


def check_keys(destination: Mapping[str, Any]) -> None:
    """Raise AwsError for a prefix with keys that neither the query nor the function sets."""
    names = partition_names(str(destination.get("Prefix") or ""))
    processors = processors_of(destination)
    namespaces = {namespace for namespace, _ in names}
    # The sentences are from aws-cdk's source (aws-kinesisfirehose/lib/private/helpers.ts, observed by others, 2025).
    if not get_mapping(destination, "ProcessingConfiguration").get("Enabled"):
        raise invalid("Processing Configuration is not enabled when DataPartitioning is enabled")
    if QUERY in namespaces and "MetadataExtraction" not in processors:
        raise invalid(
            "MetadataExtraction processor should be present when S3 Prefix has partitionKeyFromQuery namespace."
        )
    if LAMBDA in namespaces and "Lambda" not in processors:
        raise invalid(
            "Lambda should be present when S3 Prefix contains keys from partitionKeyFromLambda namespace"
        )
    query_keys = find_keys(
        processors.get("MetadataExtraction", {}).get("MetadataExtractionQuery", "")
    )
    if query_keys and not query_keys <= {name for namespace, name in names if namespace == QUERY}:
        raise invalid(
            "MetaDataExtraction JQ Query can't contain keys that are not present in the S3 Prefix expression"
        )
    if len(set(names)) > MOST_KEYS:
        raise invalid(f"At most {MOST_KEYS} partition keys can be in a prefix.")  # assumed
