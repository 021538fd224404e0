"""Ports in memory, for deliveries: objects that can fail, schemas, logs, metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from headrace.core.ports import (
    LogLine,
    Metric,
    ObjectInfo,
    ObjectNotFound,
    SchemaNotFound,
    TableSchema,
)


class MemoryObjects:
    """An `ObjectStore` in a dict. `die_after_put`: the object is written, then the process is as killed."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts = 0
        self.die_after_put = False
        self.refuse = False

    def put(
        self,
        bucket: str,
        key: str,
        body: bytes | Path,
        *,
        content_type: str = "binary/octet-stream",
        content_encoding: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> str:
        if self.refuse:
            raise OSError("no space left")
        self.objects[f"{bucket}/{key}"] = body if isinstance(body, bytes) else body.read_bytes()
        self.puts += 1
        if self.die_after_put:
            raise KeyboardInterrupt("killed")
        return "etag"

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


class MemorySchemas:
    """A `SchemaCatalog` of one table."""

    def __init__(self, *columns: tuple[str, str]) -> None:
        self.columns = columns

    def table(self, database: str, table: str, *, account: str, region: str) -> TableSchema:
        if not self.columns:
            raise SchemaNotFound(f"{database}.{table}")
        return TableSchema(self.columns)


class MemoryLogs:
    """A `LogSink` that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def put(
        self, group: str, stream: str, lines: Sequence[LogLine], *, account: str, region: str
    ) -> None:
        self.lines += [line.message for line in lines]


class MemoryMetrics:
    """A `MetricSink` that keeps its data."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []

    def put(self, metrics: Sequence[Metric], *, account: str, region: str) -> None:
        self.metrics += metrics
