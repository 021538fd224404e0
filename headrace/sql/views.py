"""Reads a table's latest state, which its query keeps as Parquet, without Spark: for pull and push queries.

`manifests/N.json` names what is the state after micro-batch N: runs of rows, the oldest first, each in files by the
order of their keys, of which the newest row of an `_id` counts. `keep_view` in `job_frame.py.txt` writes them. What a
newer state has replaced stays for some micro-batches, so that a reader that has just read a manifest finds its files.
Needs the extra `parquet`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# A value of SQL is of any type until it is computed; pyarrow has no types.
from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from headrace.sql import conversions
from headrace.sql.fold import RunningTables
from headrace.sql.plan import KSQL, QueryPlan, Relation
from headrace.sql.records import Row
from headrace.sql.statements import Column, Expression, Operation, walk
from headrace.sql.types import SqlType
from headrace.sql.values import evaluator

_READERS = 8
# A run's file lies in the run's folder.
_FILE = re.compile(r"[.-]*\w[\w.-]*")
_ATTEMPTS = 5
_COMPARED = {"STRING": str, "INT": int, "BIGINT": int}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class ViewError(Exception):
    """A state that cannot be read; the message says why."""


# Files of a state are merged at a few MB; others may lie where a state was.
_MOST_FILE_BYTES = 512 * 1024 * 1024
_MOST_VALUES = 50_000_000


def _check_size(path: str, size: int) -> None:
    if size > _MOST_FILE_BYTES:
        raise ViewError(f"{path} has {size} bytes; headrace reads at most {_MOST_FILE_BYTES}")


class Files(Protocol):
    """A folder of files, local or in S3."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none if it is not there."""
        ...

    def read(self, path: str) -> bytes:
        """Return a file's bytes; raises FileNotFoundError. For several threads."""
        ...


class LocalFiles:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none if it is not there."""
        path = self._folder / folder
        return [one.name for one in path.iterdir()] if path.is_dir() else []

    def read(self, path: str) -> bytes:
        """Return a file's bytes; raises FileNotFoundError, ViewError."""
        _check_size(path, (self._folder / path).stat().st_size)
        return (self._folder / path).read_bytes()


class S3Files:
    """A folder of S3, by boto3's client; raises botocore's errors."""

    def __init__(self, s3: Any, bucket: str, prefix: str) -> None:
        self._s3, self._bucket, self._prefix = s3, bucket, prefix

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none if it is not there."""
        prefix = f"{self._prefix}{folder}/"
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=prefix
        )
        return [
            one["Key"].removeprefix(prefix) for page in pages for one in page.get("Contents", ())
        ]

    def entries(self) -> list[str]:
        """Return the names of the folder's own objects and folders."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix, Delimiter="/"
        )
        paths = [
            path
            for page in pages
            for path in (
                *(one["Key"] for one in page.get("Contents", ())),
                *(one["Prefix"] for one in page.get("CommonPrefixes", ())),
            )
        ]
        return [path.removeprefix(self._prefix).rstrip("/") for path in paths]

    def read(self, path: str) -> bytes:
        """Return an object's bytes; raises FileNotFoundError, ViewError."""
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=self._prefix + path)
        except self._s3.exceptions.NoSuchKey:
            raise FileNotFoundError(path) from None
        _check_size(path, answer["ContentLength"])
        return answer["Body"].read()


@dataclass(frozen=True)
class Bounds:
    """What a key's column must be: one of `values`, and from `least` to `most`; None bounds nothing."""

    values: frozenset[Any] | None = None
    least: Any = None
    most: Any = None

    def __and__(self, other: Bounds) -> Bounds:
        """Return the bounds of both."""
        pairs = ((self.values, other.values), (self.least, other.least), (self.most, other.most))
        values, least, most = ([one for one in pair if one is not None] for pair in pairs)
        return Bounds(
            frozenset.intersection(*values) if values else None,
            max(least, default=None),
            min(most, default=None),
        )

    def may_be_in(self, least: Any, most: Any) -> bool:
        """Return whether a value from `least` to `most`, None if they are not known, may be within."""
        if least is None or most is None:
            return True
        if self.values is not None and not any(least <= value <= most for value in self.values):
            return False
        return (self.least is None or self.least <= most) and (
            self.most is None or least <= self.most
        )


def bounds_of(where: Expression | None, keys: Mapping[str, SqlType]) -> dict[str, Bounds]:
    """Return by key column what `where` says at least of it; rows outside these bounds do not hold."""
    bounds: dict[str, Bounds] = {}
    waiting = [] if where is None else [where]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, Operation):
            continue
        if part.operator == "AND":
            waiting.extend(part.operands)
            continue
        column, *others = part.operands
        operator = part.operator
        if not isinstance(column, Column) and len(others) == 1 and operator in ("=", *_MIRRORED):
            column, others, operator = others[0], [column], _MIRRORED.get(operator, operator)
        if not isinstance(column, Column) or column.name not in keys:
            continue
        kind = _COMPARED.get(keys[column.name].name)
        if kind is None or any(isinstance(inner, Column) for one in others for inner in walk(one)):
            continue
        values = [evaluator(one)({}) for one in others]
        if all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
            bounds[column.name] = bounds.get(column.name, Bounds()) & _bounds(operator, values)
    return bounds


def _bounds(operator: str, values: list[Any]) -> Bounds:
    match operator:
        case "=" | "IN":
            return Bounds(frozenset(values))
        case "<" | "<=":
            return Bounds(most=values[0])
        case ">" | ">=":
            return Bounds(least=values[0])
        case "BETWEEN":
            return Bounds(least=values[0], most=values[1])
        case _:
            return Bounds()


class View:
    """The latest state of one table. One thread; the table's query may write meanwhile."""

    def __init__(self, relation: Relation, files: Files) -> None:
        self.relation = relation
        self._files = files

    def rows(self, bounds: Mapping[str, Bounds]) -> tuple[int, list[Row]]:
        """Return the last micro-batch and the state's rows within `bounds` after it; raises ViewError."""
        for _ in range(_ATTEMPTS):
            # The query may go on by so many micro-batches that it removes a file: its next state is then there.
            with contextlib.suppress(FileNotFoundError):
                manifest = self._manifest(self._last_batch())
                return manifest["batch"], self._rows(manifest, bounds)
        raise ViewError(f"{self.relation.name} changes faster than it is read")

    def changes(self, since: int, bounds: Mapping[str, Bounds]) -> Iterator[tuple[int, list[Row]]]:
        """Return each micro-batch after `since` that is there, with the rows that it changed; raises ViewError."""
        later = [batch for batch in self._batches() if batch > since]
        for batch in later:
            try:
                manifest = self._manifest(batch)
                runs = [run for run in manifest["runs"] if run["batch"] == batch]
                rows = self._rows({"runs": runs}, bounds, batch)
            except FileNotFoundError:
                manifest, rows = {"previous": batch}, []
            if manifest["previous"] > since:
                raise ViewError(
                    f"{self.relation.name} has gone on by more changes than it keeps: ask again"
                )
            since = batch
            yield batch, rows

    def _batches(self) -> list[int]:
        names = [name for name in self._files.names("manifests") if name.endswith(".json")]
        return sorted(int(name.removesuffix(".json")) for name in names if name[:-5].isdigit())

    def _last_batch(self) -> int:
        batches = self._batches()
        if not batches:
            raise ViewError(
                f"{self.relation.name} has no state yet: `headrace sql run` runs its query, which stores a group with"
                " its first change (EMIT FINAL: a window when it is closed)"
            )
        return batches[-1]

    def _manifest(self, batch: int) -> dict[str, Any]:
        manifest = json.loads(self._files.read(f"manifests/{batch:020}.json"))
        if not _is_manifest(manifest):
            raise ViewError(f"{self.relation.name} has a damaged state: manifest {batch} is none")
        return manifest

    def _rows(
        self, manifest: Mapping[str, Any], bounds: Mapping[str, Bounds], batch: int | None = None
    ) -> list[Row]:
        """Return the newest rows of a manifest's runs; with `batch` those alone that it wrote, deleted ones too."""
        first = self.relation.key_columns()[0].name
        of_first = bounds.get(first, Bounds())
        paths = [
            f"runs/{run['batch']}/{file['name']}"
            for run in reversed(manifest["runs"])
            for file in run["files"]
            if of_first.may_be_in(file["least"], file["most"])
        ]
        newest: dict[str, dict[str, Any]] = {}
        with ThreadPoolExecutor(_READERS) as readers:
            for content in readers.map(self._files.read, paths):
                for row in _within(content, bounds):
                    newest.setdefault(row["_id"], row)
        if batch is None:
            oldest_ms = manifest.get("oldest_ms")
            rows = [self._row(row) for row in newest.values() if not row["_deleted"]]
            # A window that its RETENTION has passed may still be in a file.
            return [
                row
                for row in rows
                if oldest_ms is None or conversions.millis(row.time) >= oldest_ms
            ]
        return [self._row(row) for row in newest.values() if row["_batch"] == batch]

    def _row(self, values: dict[str, Any]) -> Row:
        columns = {
            column.name: _value(values.get(column.name), column.type)
            for column in self.relation.columns
        }
        time = values["_rowtime"]
        return Row(
            columns,
            values["_key"],
            conversions.EPOCH if time is None else _utc(time),
            values["_deleted"],
        )


def _is_manifest(value: Any) -> bool:
    """Whether a stored value is a manifest whose files lie in their runs' folders."""
    try:
        return all(type(value[name]) is int for name in ("batch", "previous")) and all(
            type(run["batch"]) is int
            and _FILE.fullmatch(file["name"])
            and {"least", "most"} <= file.keys()
            for run in value["runs"]
            for file in run["files"]
        )
    except (KeyError, TypeError, AttributeError):
        return False


def _within(content: bytes, bounds: Mapping[str, Bounds]) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file whose keys are within bounds; whole, since only keys never change."""
    arrow: Any = importlib.import_module("pyarrow")
    compute: Any = importlib.import_module("pyarrow.compute")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    file = parquet.ParquetFile(io.BytesIO(content))
    unpacked = sum(
        max(0, file.metadata.row_group(n).total_byte_size)
        for n in range(file.metadata.num_row_groups)
    )
    if (
        unpacked > _MOST_FILE_BYTES
        or file.metadata.num_rows * file.metadata.num_columns > _MOST_VALUES
    ):
        raise ViewError(
            f"a file of the state unfolds to more than {_MOST_FILE_BYTES} bytes or {_MOST_VALUES} values"
        )
    table = file.read(use_threads=False)
    for name, of_column in bounds.items():
        column = table[name]
        if of_column.values is not None:
            values = arrow.array(sorted(of_column.values)).cast(column.type, safe=False)
            table = table.filter(compute.is_in(column, values))
            column = table[name]
        if of_column.least is not None:
            table = table.filter(compute.greater_equal(column, of_column.least))
            column = table[name]
        if of_column.most is not None:
            table = table.filter(compute.less_equal(column, of_column.most))
    return table.to_pylist()


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _value(value: Any, type_: SqlType) -> Any:
    """Return what pyarrow read as the runner has it: maps as dicts, times with UTC."""
    if value is None:
        return None
    match type_.name:
        case "TIMESTAMP":
            return _utc(value)
        case "ARRAY":
            return [_value(item, type_.of[0]) for item in value]
        case "MAP":
            return {key: _value(item, type_.of[1]) for key, item in value}
        case "STRUCT":
            fields = zip(type_.fields, type_.of, strict=True)
            return {name: _value(value.get(name), of) for name, of in fields}
        case _:
            return value


def pull(query: QueryPlan, view: View) -> list[Row]:
    """Return the rows of a query of one table from its state as it is now; raises ViewError."""
    _, rows = view.rows(_bounds_for(query, view))
    running = RunningTables(replace(query, limit=None), KSQL)
    return _take(running, rows)[: query.limit]


def _take(running: RunningTables, rows: list[Row]) -> list[Row]:
    for row in rows:
        running.take(0, row)
    return running.end_batch()


def push(query: QueryPlan, view: View, wait: Callable[[], None]) -> Iterator[Row]:
    """Return the rows of a query of one table, and then each change of them; `wait` stands between two looks.

    Ends at the query's LIMIT; raises ViewError.
    """
    bounds = _bounds_for(query, view)
    running = RunningTables(replace(query, limit=None), KSQL)

    def all_rows() -> Iterator[Row]:
        since, rows = view.rows(bounds)
        yield from _take(running, rows)
        while True:
            for batch, changed in view.changes(since, bounds):
                since = batch
                yield from _take(running, changed)
            wait()

    return islice(all_rows(), query.limit)


def _bounds_for(query: QueryPlan, view: View) -> dict[str, Bounds]:
    keys = {column.name: column.type for column in view.relation.key_columns()}
    return bounds_of(query.where, keys)
