"""Executes a COPY: reads the objects in S3, checks them row by row, and loads the rows in the open transaction."""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from headrace.core.arn import bucket_arn, make_arn
from headrace.core.ports import BucketNotFound, ObjectNotFound, ObjectStore
from headrace.core.ports.warehouses import ClusterSpec, MayRead, WarehouseError
from headrace.core.values import parse_json
from headrace.services.redshift.copy_command import Copy, quote_name
from headrace.services.redshift.copy_rows import Path, Problem, Row, parse_paths, rows_of
from headrace.services.redshift.copy_values import Target, convert

if TYPE_CHECKING:
    import psycopg

# Larger objects are refused, because an object is read into memory (assumed: AWS's largest ones have 128 MiB).
_MOST_BYTES = 1 << 30
_TYPE_NAMES = {"bpchar": "char", "text": "varchar", "jsonb": "super", "bytea": "varbyte"}

_COLUMNS = """
select a.attname, t.typname, a.atttypmod, a.attnotnull, a.atthasdef, a.attidentity <> ''
from pg_attribute a join pg_type t on t.oid = a.atttypid
where a.attrelid = %s and a.attnum > 0 and not a.attisdropped order by a.attnum
"""


@dataclass(slots=True)
class LoadFailed(Exception):
    """More rows failed than MAXERROR allows: `errors` are the rows for STL_LOAD_ERRORS."""

    table: str
    errors: list[dict[str, Any]]

    def sentence(self) -> str:
        """Return Redshift's sentence."""
        return f"ERROR: Load into table '{self.table}' failed. Check 'stl_load_errors' system table for details."


@dataclass(frozen=True, slots=True)
class Loader:
    """One COPY. `role` is the role for reading S3: the statement's, or Firehose's."""

    connection: psycopg.Connection[Any]
    objects: ObjectStore
    spec: ClusterSpec
    may_read: MayRead
    role: str = ""

    def run(self, copy: Copy) -> tuple[int, list[dict[str, Any]]]:
        """Load; return the number of rows, and the rows for STL_LOAD_ERRORS. Raises WarehouseError, LoadFailed."""
        role = self.role or self._role_of(copy)
        oid, shown = self._table(copy)
        targets = self._targets(copy, oid)
        paths: list[Path] = []
        if copy.format == "json" and copy.json.startswith("s3://"):
            paths = parse_paths(self._read(copy.json, role))
            if len(paths) != len(targets):
                raise WarehouseError(
                    "ColumnMismatch",
                    "ERROR: Number of jsonpaths and the number of columns should match. JSONPath size:"
                    f" {len(paths)}, Number of columns in table or column list: {len(targets)}",
                )
        errors: list[dict[str, Any]] = []
        sent = _Sender(self.connection, copy, shown, targets)
        limit = max(1, copy.max_error)
        for url in self._files(copy, role):
            for row in self._rows(url, role, copy, targets, paths):
                problem = sent.add(row)
                if problem is not None:
                    errors.append(_error_line(problem, row, url, oid, targets))
                    if len(errors) >= limit and not copy.has("ignore_all_errors"):
                        raise LoadFailed(copy.table, errors)
        if not copy.has("no_load"):
            sent.flush()
        return sent.count, errors

    # --- the table ----------------------------------------------------------------------------

    def _table(self, copy: Copy) -> tuple[int, str]:
        shown = ".".join(quote_name(name) for name in (copy.schema, copy.table) if name)
        row = self.connection.execute("select to_regclass(%s)::oid", [shown]).fetchone()
        if row is None or row[0] is None:
            raise WarehouseError(
                "TableNotFound", f"ERROR: Cannot COPY into nonexistent table {copy.table}"
            )
        return int(row[0]), shown

    def _targets(self, copy: Copy, oid: int) -> list[Target]:
        rows = self.connection.execute(_COLUMNS, [oid]).fetchall()
        known = {str(row[0]): _target(row) for row in rows}
        columns = copy.columns or [
            name
            for name, target in known.items()
            if not target.is_identity or copy.has("explicit_ids")
        ]
        for name in columns:
            if name not in known:
                raise WarehouseError(
                    "ColumnNotFound",
                    f'ERROR: column "{name}" of relation "{copy.table}" does not exist',
                )
        for name, target in known.items():
            if (
                name not in columns
                and target.not_null
                and not (target.has_default or target.is_identity)
            ):
                raise WarehouseError(
                    "MissingColumn",
                    f"ERROR: Column '{name}' is NOT NULL, has no default and is not in the column list",
                )
        return [known[name] for name in columns]

    # --- S3 -----------------------------------------------------------------------------------

    @property
    def _user_arn(self) -> str:
        return make_arn("redshift", self.spec.region, self.spec.account, "dbuser")

    def _role_of(self, copy: Copy) -> str:
        if copy.has_keys:
            return ""
        role = self.spec.default_role if copy.role == "default" else copy.role
        if not role:
            raise WarehouseError(
                "SyntaxError", "ERROR: COPY needs credentials: IAM_ROLE, CREDENTIALS or keys"
            )
        if role not in self.spec.roles:
            raise WarehouseError(
                "AccessDenied",
                f"ERROR: User {self._user_arn}:{self.spec.name}/"
                f"{self.spec.user} is not authorized to assume IAM Role {role}",
            )
        return role

    def _files(self, copy: Copy, role: str) -> Iterator[str]:
        if copy.has("manifest"):
            yield from self._manifest(copy, role)
            return
        bucket, _, prefix = copy.source.removeprefix("s3://").partition("/")
        self._check(role, "s3:ListBucket", bucket_arn(self.spec.region, bucket))
        try:
            keys = [item.key for item in self.objects.list(bucket, prefix)]
        except BucketNotFound:
            keys = []
        if not keys:
            raise WarehouseError(
                "MissingS3File", f"ERROR: The specified S3 prefix '{prefix}' does not exist"
            )
        yield from (f"s3://{bucket}/{key}" for key in keys)

    def _manifest(self, copy: Copy, role: str) -> Iterator[str]:
        try:
            entries = parse_json(self._read(copy.source, role))["entries"]
            urls = [(str(entry["url"]), bool(entry.get("mandatory"))) for entry in entries]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise WarehouseError(
                "IncorrectCopyOptions", "ERROR: Manifest file is not in correct json format"
            ) from error
        for url, mandatory in urls:
            bucket, _, key = url.removeprefix("s3://").partition("/")
            if mandatory or self._exists(bucket, key):
                yield url

    def _exists(self, bucket: str, key: str) -> bool:
        try:
            return any(item.key == key for item in self.objects.list(bucket, key))
        except BucketNotFound:
            return False

    def _check(self, role: str, action: str, arn: str) -> None:
        sentence = self.may_read(role, action, arn) if role else ""
        if sentence:
            raise WarehouseError(
                "S3BucketAccessDenied",
                f"ERROR: S3ServiceException:{sentence},Status 403,Error AccessDenied",
            )

    def _read(self, url: str, role: str) -> bytes:
        bucket, _, key = url.removeprefix("s3://").partition("/")
        self._check(role, "s3:GetObject", bucket_arn(self.spec.region, f"{bucket}/{key}"))
        try:
            if self.objects.file(bucket, key).stat().st_size > _MOST_BYTES:
                raise WarehouseError("DataLoadFailed", f"ERROR: {url} is larger than 1 GiB")
            return self.objects.get(bucket, key)
        except BucketNotFound as error:
            raise WarehouseError(
                "MissingS3File",
                "ERROR: S3ServiceException:The specified bucket does not exist,Status 404,Error NoSuchBucket",
            ) from error
        except (ObjectNotFound, FileNotFoundError) as error:
            raise WarehouseError(
                "MissingS3File",
                f"ERROR: S3ServiceException:The specified key does not exist.,Status 404,Error NoSuchKey,{url}",
            ) from error

    def _rows(
        self, url: str, role: str, copy: Copy, targets: Sequence[Target], paths: Sequence[Path]
    ) -> Iterator[Row]:
        data = self._read(url, role)
        if copy.has("gzip") or copy.has("bzip2"):
            data = _unpack(data, url, gzipped=copy.has("gzip"))
        # Invalid UTF-8 becomes lone surrogates, which are a problem of their column only.
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
        return rows_of(text, copy, [target.name for target in targets], paths)


def _unpack(data: bytes, url: str, *, gzipped: bool) -> bytes:
    try:
        if not gzipped:
            return bz2.decompress(data)
        # Decompress member by member, with a limit: a small object may expand to any size.
        parts: list[bytes] = []
        left, room = data, _MOST_BYTES
        while left:
            unpacker = zlib.decompressobj(31)
            parts.append(unpacker.decompress(left, room))
            room -= len(parts[-1])
            if unpacker.unconsumed_tail or room <= 0:
                raise WarehouseError("DataLoadFailed", f"ERROR: {url} unpacks to more than 1 GiB")
            if not unpacker.eof:
                raise gzip.BadGzipFile(url)
            left = unpacker.unused_data
        return b"".join(parts)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise WarehouseError(
            "DataLoadFailed", f"ERROR: {url} is not in the compression that COPY names"
        ) from error


class _Sender:
    """Collects the valid rows and sends them to PostgreSQL."""

    def __init__(
        self, connection: psycopg.Connection[Any], copy: Copy, table: str, targets: Sequence[Target]
    ) -> None:
        self._connection, self._copy, self._table, self._targets = connection, copy, table, targets
        self._rows: list[list[str | None]] = []
        self.count = 0

    def add(self, row: Row) -> Problem | None:
        """Add a row, or return its problem."""
        if row.problem is not None:
            return row.problem
        try:
            converted = [
                convert(value, target, self._copy)
                for value, target in zip(row.fields, self._targets, strict=True)
            ]
        except Problem as problem:
            return problem
        self._rows.append(converted)
        self.count += 1
        return None

    def flush(self) -> None:
        """Load the added rows."""
        names = ", ".join(quote_name(target.name) for target in self._targets)
        with self._connection.cursor() as cursor:
            statement = cast("Any", f"copy {self._table} ({names}) from stdin")
            with cursor.copy(statement) as into:
                for row in self._rows:
                    into.write_row(row)


def _target(row: Sequence[Any]) -> Target:
    name, kind, modifier, not_null, has_default, is_identity = row
    length = precision = scale = 0
    if kind in ("varchar", "bpchar") and modifier > 0:
        length = modifier - 4
    if kind == "numeric" and modifier > 0:
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0xFFFF
    return Target(
        str(name),
        str(kind),
        length,
        precision,
        scale,
        bool(not_null),
        bool(has_default),
        bool(is_identity),
    )


def _error_line(
    problem: Problem, row: Row, url: str, oid: int, targets: Sequence[Target]
) -> dict[str, Any]:
    target = next((target for target in targets if target.name == problem.column), None)
    kind = "" if target is None else target.type
    return {
        "userid": 100,
        "slice": 0,
        "tbl": oid,
        "filename": _shorten(url, 256),
        "line_number": row.line,
        "colname": _shorten(problem.column, 127),
        "type": _TYPE_NAMES.get(kind, kind),
        "col_length": str(target.length) if target is not None and target.length else "",
        "position": 0,
        "raw_line": _shorten(row.raw, 1024),
        "raw_field_value": _shorten(problem.value, 1024),
        "err_code": problem.code,
        "err_reason": problem.reason[:100],
    }


def _shorten(text: str, most: int) -> str:
    """Return the beginning of a text, without characters that PostgreSQL does not store."""
    clean = text[:most].replace("\x00", "?")
    return clean.encode("utf-8", "replace").decode("utf-8", "replace")
