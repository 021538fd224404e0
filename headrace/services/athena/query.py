"""A query with its tables in a DuckDB, and what it asks of the parent process.

It runs in the child process of `headrace.services.athena.child` alone.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.services.athena.hive_types import quote
from headrace.services.athena.parsing import parse
from headrace.services.athena.statements import (
    INFORMATION,
    Statement,
    StatementRefused,
    Table,
    split_part,
)

_MOST_VIEWS = 100

_GLOB = re.compile(r"[*?\[]")


class Pipe:
    """Asks the parent."""

    def __init__(self) -> None:
        self._output = sys.stdout
        self._lock = threading.Lock()
        sys.stdout = sys.stderr  # a library may print warnings

    def find_object(self, location: str) -> str:
        """Return the path of an object that a table's metadata names; any thread may. Raises StatementRefused."""
        answer = self.ask(object=location)
        if "missing" in answer:
            raise StatementRefused(answer["missing"])
        return str(answer["path"])

    def ask(self, **message: Any) -> Any:
        """Return the parent's answer to a message; any thread may."""
        with self._lock:
            self.say(**message)
            return self.hear()

    def say(self, **message: Any) -> None:
        """Write a message."""
        self._output.write(json.dumps(message) + "\n")
        self._output.flush()

    def hear(self) -> Any:
        """Read a message."""
        line = sys.stdin.readline()
        if not line:
            raise SystemExit(1)
        return json.loads(line)


TOO_LARGE = "EXCEEDED_MEMORY_LIMIT: Query exceeds the memory that headrace gives it"


class Query:
    """A query with its tables, in a DuckDB in memory."""

    def __init__(self, statement: Statement, request: Mapping[str, Any], pipe: Pipe) -> None:
        import duckdb

        from headrace.services.athena.functions import MACROS

        self.duckdb = duckdb
        self.statement, self.request = statement, request
        self.folder = Path(request["folder"])
        self.pipe = pipe
        self.tables: list[Table] = []
        self.views: dict[tuple[str, str], str] = {}
        self.catalogue: list[dict[str, Any]] = []
        self._iceberg: Any = None
        self._describe(list(statement.tables))
        self.connection = connection = duckdb.connect()
        settings = {
            "memory_limit": f"{request['memory_bytes'] // 1_000_000}MB",
            "temp_directory": str(self.folder / "spilled"),
            "max_temp_directory_size": f"{request['disk_bytes'] // 1_000_000}MB",
            "threads": "2",
            "TimeZone": "UTC",
            # As in Athena, where a whole number by a whole number is a whole number.
            "integer_division": "true",
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        for name, value in settings.items():
            connection.execute(f"SET {name} = '{value}'")
        paths = [file["path"] for table in self.tables for file in table.files]
        connection.execute("SET allowed_paths = ?", [paths])
        connection.execute("SET allowed_directories = ?", [[f"{self.folder}/"]])
        connection.execute("SET enable_external_access = false")
        for macro in MACROS:
            connection.execute(macro)
        self.sql = statement.sql
        with self.errors():
            if self.tables or self.catalogue:
                self._define_tables()
            self._create_views()
        connection.execute("SET lock_configuration = true")

    def _define_tables(self) -> None:
        # A query without tables starts without pyarrow and NumPy, which take as long to load as DuckDB.
        from headrace.services.athena.tables import define, define_information

        for table in self.tables:
            define(self.connection, table, self.open_iceberg)
        if self.catalogue:
            define_information(self.connection, self.catalogue)

    def _describe(self, names: list[tuple[str, str]]) -> None:
        """Get the descriptions of tables, and of those that views read."""
        known: set[tuple[str, str]] = set()
        while names:
            if len(known) > _MOST_VIEWS:
                raise StatementRefused("VIEW_IS_RECURSIVE: The query reads too many views")
            known.update(names)
            if any(database == INFORMATION for database, _ in names):
                self.catalogue = self.pipe.ask(catalogue=True)
                names = [name for name in names if name[0] != INFORMATION]
            answers = self.pipe.ask(tables=[(one[0], split_part(one[1])[0]) for one in names])
            wanted: dict[tuple[str, str], None] = {}
            for (database, name), described in zip(names, answers, strict=True):
                if "missing" in described:
                    raise StatementRefused(described["missing"])
                if "view" in described:
                    view = parse(described["view"], described["database"].lower())
                    self.views[database, name] = view.sql
                    wanted.update(dict.fromkeys((one[0], one[1]) for one in view.tables))
                else:
                    self._link_patterns(described["files"])
                    self.tables.append(Table(database, name, described))
            names = [name for name in wanted if name not in known]

    def _link_patterns(self, files: list[dict[str, Any]]) -> None:
        """Give the files whose paths DuckDB would take for patterns of others a path without stars and brackets."""
        for number, file in enumerate(files):
            if _GLOB.search(file["path"]):
                link = self.folder / f"linked-{len(self.tables)}-{number}"
                link.symlink_to(file["path"])
                file["path"] = str(link)

    def _create_views(self) -> None:
        waiting = dict(self.views)
        while waiting:
            created = 0
            reason: Exception | None = None
            for (database, name), sql in list(waiting.items()):
                self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(database)}")
                try:
                    self.connection.execute(f"CREATE VIEW {quote(database)}.{quote(name)} AS {sql}")
                except self.duckdb.CatalogException as error:
                    reason = error  # it may read a view that is not there yet
                    continue
                del waiting[database, name]
                created += 1
            if not created and reason is not None:
                raise reason

    def errors(self) -> _Errors:
        """Return what turns DuckDB's errors into Athena's reasons."""
        return _Errors(self.duckdb)

    @property
    def iceberg(self) -> Any:
        """The catalogue of Iceberg tables. Raises StatementRefused without pyiceberg."""
        if self._iceberg is None:
            self._iceberg = open_catalog(self.pipe, self.folder)
        return self._iceberg

    def open_iceberg(self, table: Table) -> Any:
        """Return pyiceberg's table. Raises StatementRefused."""
        return self.iceberg.open((table.database, split_part(table.name)[0]), table.metadata)

    def target(self) -> Table:
        """Return the table that the statement changes, which must be an Iceberg table. Raises StatementRefused."""
        table = next(one for one in self.tables if (one.database, one.name) == self.statement.table)
        if table.stored is None:
            raise StatementRefused(_NOT_ICEBERG)
        if table.part:
            raise StatementRefused(
                "NOT_SUPPORTED: This connector does not support modifying table rows"
            )
        return table

    def scanned_bytes(self) -> int:
        """Return the size of the files that the query has read."""
        return sum(
            table.read_bytes + sum(file["size_bytes"] for file in table.files)
            for table in self.tables
        )


_NOT_ICEBERG = "NOT_SUPPORTED: Modifying Hive table rows is only supported for transactional tables"


def open_catalog(pipe: Pipe, folder: Path) -> Any:
    """Return the catalogue of Iceberg tables. Raises StatementRefused without pyiceberg."""
    try:
        from headrace.services.athena.iceberg import Catalog
    except ImportError as error:
        raise StatementRefused(
            "NOT_SUPPORTED: Iceberg tables need headrace's extra `iceberg`"
        ) from error
    return Catalog(pipe, folder)


class _Errors:
    """Turns DuckDB's errors into Athena's reasons."""

    def __init__(self, duckdb: Any) -> None:
        self._duckdb = duckdb

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, StatementRefused | MemoryError):
            return
        duckdb = self._duckdb
        if isinstance(error, duckdb.OutOfMemoryException):
            raise StatementRefused(TOO_LARGE) from error
        if isinstance(error, Exception) and isinstance(error, duckdb.Error):
            raise StatementRefused(_reason(duckdb, error)) from error


_COLUMN = re.compile(r'column "?([^" ]{1,200})"? (?:not found|must appear)', re.IGNORECASE)

_FUNCTION = re.compile(r"Function with name \"?([^\" ]{1,200})\"? does not exist", re.IGNORECASE)


def _reason(duckdb: Any, error: Exception) -> str:
    text = str(error).split("\n\nLINE", 1)[0].strip()
    first = text.split(":", 1)[1].strip() if ":" in text.split("\n", 1)[0] else text
    function, column = _FUNCTION.search(text), _COLUMN.search(text)
    if function is not None:
        return f"FUNCTION_NOT_FOUND: Function '{function[1].lower()}' not registered"
    if column is not None and "must appear" in column[0].lower():
        return f"EXPRESSION_NOT_AGGREGATE: '{column[1]}' must be an aggregate expression or appear in GROUP BY clause"
    if column is not None:
        return f"COLUMN_NOT_FOUND: Column '{column[1]}' cannot be resolved"
    if isinstance(error, duckdb.ConversionException):
        return f"INVALID_CAST_ARGUMENT: {first}"
    if isinstance(error, duckdb.BinderException | duckdb.CatalogException):
        return f"TYPE_MISMATCH: {first}"
    if first.lower().startswith("division by zero"):
        return "DIVISION_BY_ZERO: Division by zero"
    if isinstance(error, duckdb.InvalidInputException | duckdb.OutOfRangeException):
        return f"INVALID_FUNCTION_ARGUMENT: {first}"
    return f"GENERIC_USER_ERROR: {first}"
