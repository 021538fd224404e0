"""Ports in memory, for deliveries: objects that can fail, functions, schemas, logs, metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.core.ports import (
    BucketNotFound,
    FunctionNotFound,
    InvokeResult,
    LogLine,
    Metric,
    ObjectInfo,
    ObjectNotFound,
    SchemaNotFound,
    TableSchema,
)


class Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


class MemoryObjects:
    """An `ObjectStore` in a dict.

    Attributes:
        fates: what becomes of the next puts, in order: `refuse`, `die before`, `die after`, `ok`; then all are ok.
        refuse: every put is refused.
        missing: buckets that are not there.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts = 0
        self.fates: list[str] = []
        self.refuse = False
        self.missing: set[str] = set()

    def put(
        self,
        bucket: str,
        key: str,
        body: bytes | Path,
        *,
        content_type: str = "binary/octet-stream",
        content_encoding: str | None = None,
        metadata: Mapping[str, str] | None = None,
        kms_key: str = "",
        storage_class: str = "",
    ) -> str:
        if bucket in self.missing:
            raise BucketNotFound(bucket)
        fate = self.fates.pop(0) if self.fates else "ok"
        if self.refuse or fate == "refuse":
            raise OSError("no space left")
        if fate == "die before":
            raise Killed
        self.objects[f"{bucket}/{key}"] = body if isinstance(body, bytes) else body.read_bytes()
        self.puts += 1
        if fate == "die after":
            raise Killed
        return "etag"

    def home(self, bucket: str) -> tuple[str, str]:
        if bucket in self.missing:
            raise BucketNotFound(bucket)
        return "000000000000", "us-east-1"

    def get(self, bucket: str, key: str) -> bytes:
        try:
            return self.objects[f"{bucket}/{key}"]
        except KeyError as error:
            raise ObjectNotFound(key) from error

    def delete(self, bucket: str, key: str) -> None:
        self.objects.pop(f"{bucket}/{key}", None)

    def list(self, bucket: str, prefix: str = "") -> Iterator[ObjectInfo]:
        for name in sorted(self.objects):
            if name.startswith(f"{bucket}/{prefix}"):
                yield ObjectInfo(name.partition("/")[2], len(self.objects[name]), "etag", 0)

    def file(self, bucket: str, key: str) -> Path:
        raise ObjectNotFound(key)

    def buckets(self) -> Mapping[str, Path]:
        return {}


class MemoryFunctions:
    """A `FunctionInvoker` whose functions are Python's: event in, answer out; raising is a function error."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.events: list[dict[str, Any]] = []

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        function = self.functions.get(function_arn)
        if function is None:
            raise FunctionNotFound(function_arn)
        self.events.append(json.loads(payload))
        try:
            answer = json.dumps(function(self.events[-1])).encode()
        except ArithmeticError as error:
            answer = json.dumps({"errorMessage": str(error)}).encode()
            return InvokeResult(answer, "Unhandled", "$LATEST", "request")
        return InvokeResult(answer, None, "$LATEST", "request")


class MemorySchemas:
    """A `SchemaCatalog` of one table."""

    def __init__(self, *columns: tuple[str, str]) -> None:
        self.columns = columns

    def table(
        self, database: str, table: str, *, account: str, region: str, version: str = "LATEST"
    ) -> TableSchema:
        if not self.columns:
            raise SchemaNotFound(f"{database}.{table}")
        return TableSchema(self.columns)


class MemoryLogs:
    """A `LogSink` that keeps its lines, and where the last of them went."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.place = ("", "")

    def put(self, group: str, stream: str, lines: Sequence[LogLine], **_: Any) -> None:
        self.place = group, stream
        self.lines += [line.message for line in lines]


class MemoryMetrics:
    """A `MetricSink` that keeps its data."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []

    def put(self, metrics: Sequence[Metric], *, account: str, region: str) -> None:
        self.metrics += metrics
