"""Dynamic partitioning: a record's partition keys, from the query and the function, determine its buffer.

Sources: docs.aws.amazon.com/firehose/latest/dev/dynamic-partitioning.html and its pages (documented); error codes and
sentences are from users' error output (observed by others).

Finds the keys in the result of a JQ query from its text, if the query is a single object between braces.

Firehose refuses a query with keys that the prefix does not use (observed by the CDK's authors: the sentence stands in
aws-cdk's source, packages/aws-cdk-lib/aws-kinesisfirehose/lib/metadata-extraction-processor.ts, 2025). How it finds
the keys is unknown; headrace accepts a query whose keys are only known by running it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from headrace.core.values import get_mapping
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.failures import FailedRecord
from headrace.services.firehose.prefix import LAMBDA, QUERY, partition_names
from headrace.services.firehose.queries import Found, Queries, is_json
from headrace.services.firehose.records import Record
from headrace.services.firehose.state import DeliveryStream, is_partitioned, processors_of

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
