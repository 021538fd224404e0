"""Runs queries one after the other, each in a copy of this process (a fork) that has limits of the kernel.

`python -m headrace.services.athena.child` ends with its input, or with a copy that dies. A copy reads lines of JSON
from the standard input and answers in lines on the standard output:
1. in: the query's text, its database, its parameters, a folder for its files, the bounds;
2. out: `{"tables": [[database, name], ...]}` as often as it needs them; in: their descriptions, in order; or
   `{"catalogue": true}`; in: all databases, with the columns of their tables; or `{"object": uri}`; in: its file; or
   `{"commit": ...}`: an Iceberg table's new metadata and files; in: whether others were first; or `{"delete": uris}`;
3. out: `{"done": ...}`, `{"refused": ...}`, or `{"act": ...}` for a statement on the catalogue, which the parent runs.

DuckDB can open the tables' files and write to the folder; a query cannot name others.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import dataclasses
import gc
import importlib
import os
import resource
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.services.athena.ddl import iceberg_properties
from headrace.services.athena.hive_types import NoHiveType, athena_name, hive_name, literal, quote
from headrace.services.athena.parsing import parse
from headrace.services.athena.query import TOO_LARGE, Pipe, Query, open_catalog
from headrace.services.athena.statements import (
    PATH,
    WITH_PATH,
    Statement,
    StatementRefused,
    Table,
)

_ROWS_AT_ONCE = 10_000
# Each format's usual compression, and its others (documented: compression-support-hive.html).
_COMPRESSIONS = {
    "PARQUET": (
        "GZIP",
        {"SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "NONE": "uncompressed"},
    ),
    "ORC": (
        "ZLIB",
        {"ZLIB": "zlib", "SNAPPY": "snappy", "LZ4": "lz4", "ZSTD": "zstd", "NONE": "uncompressed"},
    ),
    "JSON": ("GZIP", {"GZIP": "gzip", "ZSTD": "zstd", "NONE": "none"}),
    "TEXTFILE": ("GZIP", {"GZIP": "gzip", "ZSTD": "zstd", "NONE": "none"}),
}
_SUFFIXES = {"gzip": ".gz", "zstd": ".zst"}
# What only some queries need: when a copy has imported it, this process does so for those that follow. None may start
# a thread here, which copies would lack: `processes.py` has variables against that.
HEAVY = (
    "duckdb",
    "headrace.services.athena.iceberg",
    "headrace.services.athena.results",
    "headrace.services.athena.tables",
    "sqlglot.dialects.athena",
    "sqlglot.dialects.duckdb",
)
_RAN = 64


def main() -> None:
    """Have copies run queries until the standard input ends."""
    while True:
        # Copies share what they do not change.
        gc.freeze()
        copy = os.fork()
        if copy == 0:
            os._exit(_run_one())
        _, status = os.waitpid(copy, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < _RAN:
            return
        for place, name in enumerate(HEAVY):
            if code & 1 << place:
                importlib.import_module(name)


def _run_one() -> int:
    """Run the query that the standard input has next; return the exit code: what of `HEAVY` it has imported."""
    try:
        _run(Pipe())
    except SystemExit:
        return 1
    except BaseException:  # noqa: BLE001 - the log gets where it was
        traceback.print_exc()
        return 1
    return _RAN | sum(1 << place for place, name in enumerate(HEAVY) if name in sys.modules)


def _run(pipe: Pipe) -> None:
    request = pipe.hear()
    os.chdir(request["folder"])
    os.dup2(os.open("errors", os.O_WRONLY | os.O_APPEND), sys.stderr.fileno())
    _bound(request)
    try:
        statement = parse(request["query"], request["database"], request["parameters"])
        if statement.action in _ALTERS:
            statement = _alter(statement, request, pipe)
        if statement.action not in _RUNS:
            pipe.say(act=statement.to_dict())
            return
        pipe.say(done=_RUNS[statement.action](Query(statement, request, pipe)))
    except StatementRefused as refusal:
        pipe.say(refused=str(refusal), category=refusal.category)
    except NoHiveType as error:
        pipe.say(refused=f"SYNTAX_ERROR: {error}", category=2)
    except RecursionError:
        # Trino's words.
        sentence = "line 1:1: statement is too large (stack overflow while parsing)"
        pipe.say(refused=sentence, category=2)
    except MemoryError:
        pipe.say(refused=TOO_LARGE, category=2)
    except Exception as error:  # noqa: BLE001 - whatever it is, the client gets a reason, and the log where it was
        traceback.print_exc()
        pipe.say(refused=f"GENERIC_INTERNAL_ERROR: {type(error).__name__}: {error}", category=1)


def _bound(request: Mapping[str, Any]) -> None:
    os.nice(5)  # the cloud answers others meanwhile
    cpu_s, memory_bytes = int(request["cpu_s"]), int(request["memory_bytes"])
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
    if sys.platform != "darwin":
        # Address space, of which libraries map more than they use.
        resource.setrlimit(
            resource.RLIMIT_AS, (memory_bytes + 3 * 1024**3, memory_bytes + 3 * 1024**3)
        )
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (request["disk_bytes"], request["disk_bytes"]))


# What a query does


def _select(query: Query) -> dict[str, Any]:
    with query.errors():
        relation = query.connection.sql(query.sql)
        names, kinds = list(relation.columns), list(relation.types)
        from headrace.services.athena.results import csv_line, render

        rows = 0
        with (query.folder / "result").open("w", encoding="utf-8", newline="") as output:
            output.write(csv_line(names))
            cursor = query.connection.execute(query.sql)
            while batch := cursor.fetchmany(_ROWS_AT_ONCE):
                rows += len(batch)
                output.writelines(csv_line(render(value) for value in row) for row in batch)
    columns = [
        {"name": name, "type": athena_name(kind)} for name, kind in zip(names, kinds, strict=True)
    ]
    return {"columns": columns, "rows": rows, "scanned_bytes": query.scanned_bytes()}


def _explain(query: Query) -> dict[str, Any]:
    with query.errors():
        plan = query.connection.execute(f"EXPLAIN {query.sql}").fetchall()
    (query.folder / "result").write_text(
        "\n".join(row[-1].rstrip("\n") for row in plan) + "\n", encoding="utf-8"
    )
    return {
        "columns": [{"name": "Query Plan", "type": "varchar"}],
        "rows": 1,
        "scanned_bytes": 0,
        "is_text": True,
    }


def _write(query: Query) -> dict[str, Any]:
    """Write a query's rows to files: those of a CREATE TABLE AS, an INSERT or an UNLOAD."""
    statement, options = query.statement, query.statement.options
    target: Mapping[str, Any] = {}
    if statement.action == "insert":
        target = query.pipe.ask(target=list(statement.table))
        if "missing" in target:
            raise StatementRefused(target["missing"])
    with query.errors():
        relation = query.connection.sql(query.sql)
        names, kinds = list(relation.columns), list(relation.types)
        if target.get("metadata"):
            return _insert_iceberg(query, target["metadata"], names)
        if "iceberg" in options:
            return _create_iceberg(query, names, kinds)
        if statement.action == "insert":
            shape = _insert_shape(query, target, names)
        else:
            shape = _new_shape(options, names, kinds)
        rows = _copy(query, shape)
    files = [
        {"path": str(path), "under": str(path.parent.relative_to(query.folder / "written"))}
        for path in sorted((query.folder / "written").rglob("*"))
        if path.is_file()
    ]
    return {
        "columns": [], "rows": rows, "files": files, "scanned_bytes": query.scanned_bytes(),
        "act": statement.to_dict(), "format": shape["format"],
        "made": [[name, kind] for name, kind in shape["columns"] if name not in shape["keys"]],
        "keys": [[name, kind] for name, kind in shape["columns"] if name in shape["keys"]],
        "delimiter": shape["delimiter"], "suffix": shape["suffix"],
    }  # fmt: skip


def _new_shape(
    options: Mapping[str, Any], names: list[str], kinds: Sequence[Any]
) -> dict[str, Any]:
    """Return how a new table's or an unload's files are written."""
    keys = list(options.get("partitioned_by") or [])
    lowered = [name.lower() for name in names]
    if len(set(lowered)) != len(lowered):
        raise StatementRefused("DUPLICATE_COLUMN_NAME: a column's name is there twice")
    if keys != lowered[len(lowered) - len(keys) :]:
        raise StatementRefused(
            "HIVE_COLUMN_ORDER_MISMATCH: Partition keys must be the last columns in the table and in the same order "
            "as the table properties: " + str(keys)
        )
    columns = [(name, hive_name(kind)) for name, kind in zip(lowered, kinds, strict=True)]
    wanted = options.get("write_compression") or options.get("compression")
    wanted = wanted or options.get("parquet_compression") or options.get("orc_compression")
    return _shape(
        str(options.get("format") or "PARQUET"),
        columns,
        keys,
        wanted,
        options.get("field_delimiter"),
    )


def _insert_shape(query: Query, target: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """Return how rows are added to a table, and make the query give its columns in order."""
    from headrace.services.athena.hive_types import parse_type

    keys = [name for name, _ in target["keys"]]
    columns = [(str(name), str(kind)) for name, kind in [*target["columns"], *target["keys"]]]
    _order_columns(query, [(name, parse_type(kind).duckdb) for name, kind in columns], names)
    return _shape(
        target["format"], columns, keys, target.get("compression"), target.get("delimiter")
    )


def _order_columns(query: Query, columns: list[tuple[str, str]], names: list[str]) -> None:
    """Make the query of an INSERT give its table's columns, of DuckDB's types, in order. Raises StatementRefused."""
    order = query.statement.options["columns"] or [name for name, _ in columns]
    if len(order) != len(names):
        raise StatementRefused(
            f"TYPE_MISMATCH: Insert query has mismatched column types: the table has {len(order)} columns, "
            f"the query {len(names)}"
        )
    at = {name: number for number, name in enumerate(order)}
    unknown = [name for name in order if name not in dict(columns)]
    if unknown:
        raise StatementRefused(
            f"COLUMN_NOT_FOUND: Insert column name does not exist in target table: {unknown[0]}"
        )
    aliases = ", ".join(f"c{number}" for number in range(len(names)))
    parts = [
        f"CAST({f'c{at[name]}' if name in at else 'NULL'} AS {kind}) AS {quote(name)}"
        for name, kind in columns
    ]
    query.sql = f"SELECT {', '.join(parts)} FROM ({query.sql}) AS inserted({aliases})"


def _shape(
    form: str, columns: list[tuple[str, str]], keys: list[str], compression: Any, delimiter: Any
) -> dict[str, Any]:
    if form not in _COMPRESSIONS:
        raise StatementRefused(
            f"NOT_SUPPORTED: headrace does not write {form} in Athena: it writes {', '.join(_COMPRESSIONS)}"
        )
    usual, known = _COMPRESSIONS[form]
    name = str(compression or usual).upper().replace("UNCOMPRESSED", "NONE")
    if name not in known:
        raise StatementRefused(
            f"NOT_SUPPORTED: headrace does not write {form} with the compression {name}"
        )
    suffix = "" if form in ("PARQUET", "ORC") else _SUFFIXES.get(known[name], "")
    return {
        "format": form, "columns": columns, "keys": keys, "codec": known[name], "suffix": suffix,
        "delimiter": str(delimiter or "\x01"),
    }  # fmt: skip


def _copy(query: Query, shape: Mapping[str, Any]) -> int:
    form, codec = shape["format"], shape["codec"]
    options = {
        "PARQUET": f"FORMAT parquet, COMPRESSION '{codec}'",
        "ORC": "FORMAT parquet, COMPRESSION 'snappy'",  # which DuckDB has, and becomes ORC below
        "JSON": f"FORMAT json, COMPRESSION '{codec}'",
        "TEXTFILE": (
            f"FORMAT csv, DELIMITER {literal(shape['delimiter'])}, QUOTE '', ESCAPE '', HEADER false, "
            f"NULLSTR '\\N', COMPRESSION '{codec}'"
        ),
    }[form]
    if shape["keys"]:
        options += f", PARTITION_BY ({', '.join(quote(key) for key in shape['keys'])})"
    else:
        options += ", PER_THREAD_OUTPUT true"
    names = ", ".join(f"{quote(name)}" for name, _ in shape["columns"])
    aliased = f"SELECT * FROM ({query.sql}) AS written({names})"
    copied = query.connection.execute(
        f"COPY ({aliased}) TO '{query.folder}/written' ({options})"
    ).fetchone()
    if form == "ORC":
        _convert_to_orc(query.folder / "written", shape)
    return int(copied[0]) if copied else 0


def _convert_to_orc(folder: Path, shape: Mapping[str, Any]) -> None:
    """Write each file of Parquet again as ORC, some rows at a time."""
    import pyarrow as pa
    from pyarrow import orc, parquet

    from headrace.services.athena.hive_types import parse_type

    kinds = {name: parse_type(kind).to_arrow() for name, kind in shape["columns"]}
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        stored = parquet.ParquetFile(path)
        schema = pa.schema([(name, kinds[name]) for name in stored.schema_arrow.names])
        # Behind a dot, which no file of DuckDB's begins with.
        made = path.with_name(f".{path.name}")
        with orc.ORCWriter(made, compression=shape["codec"]) as writer:
            writer.write(schema.empty_table())
            for batch in stored.iter_batches(_ROWS_AT_ONCE):
                writer.write(pa.Table.from_batches([batch]).cast(schema))
        stored.close()
        made.replace(path)


# Changes of Iceberg tables, each of which is committed here as one snapshot


def _insert_iceberg(query: Query, metadata: str, names: list[str]) -> dict[str, Any]:
    from headrace.services.athena import iceberg

    stored = query.iceberg.open(query.statement.table, metadata)
    columns = [(name, kind.duckdb) for name, kind in iceberg.columns_of(stored.schema())]
    _order_columns(query, columns, names)
    added, rows = iceberg.write(stored, _batches(query, query.sql), query.request["disk_bytes"])
    iceberg.append(query.iceberg, stored, added)
    return _report_commit(query, rows, added)


def _create_iceberg(query: Query, names: list[str], kinds: Sequence[Any]) -> dict[str, Any]:
    from headrace.services.athena import iceberg

    statement = query.statement
    shape = _new_shape({"format": "PARQUET"}, names, kinds)
    columns, options = shape["columns"], statement.options["iceberg"]
    if_not_exists = statement.options["if_not_exists"]
    unused = [*statement.table, options["location"], if_not_exists]
    if query.pipe.ask(unused=unused)["exists"]:
        return _report_commit(query, 0, ())
    stored = iceberg.stage(query.iceberg, statement.table, columns, options)
    casts = ", ".join(
        f"CAST(c{number} AS {kind.duckdb})"
        for number, (_, kind) in enumerate(iceberg.columns_of(stored.schema()))
    )
    aliases = ", ".join(f"c{number}" for number in range(len(names)))
    sql = f"SELECT {casts} FROM ({query.sql}) AS written({aliases})"
    added, rows = iceberg.write(stored, _batches(query, sql), query.request["disk_bytes"])
    iceberg.create(stored, added)
    return _report_commit(query, rows, added)


def _change_rows(query: Query) -> dict[str, Any]:
    """Run a DELETE, an UPDATE or a MERGE: change the rows in DuckDB, and rewrite the files that had them."""
    from headrace.services.athena import iceberg
    from headrace.services.athena.parsing import ALL_COLUMNS

    statement, target = query.statement, query.target()
    names = ", ".join(quote(name) for name, _ in target.columns)
    twice = statement.options.get("twice")
    with query.errors():
        if twice and query.connection.execute(twice).fetchall():
            raise StatementRefused(
                "MERGE_TARGET_ROW_MULTIPLE_MATCHES: One MERGE target table row matched more than one source row"
            )
        uris: set[str] = set()
        rows = 0
        cursor = query.connection.execute(query.sql.replace(quote(ALL_COLUMNS), names))
        while batch := cursor.fetchmany(_ROWS_AT_ONCE):
            rows += len(batch)
            uris.update(row[0] for row in batch if row[0] is not None)
    return _rewrite(query, target, uris, rows, iceberg)


def _optimize(query: Query) -> dict[str, Any]:
    """Rewrite small files, and those with delete files, of the partitions that a predicate names."""
    from headrace.services.athena import iceberg

    target = query.target()
    with query.errors():
        named = {row[0] for row in query.connection.execute(query.sql).fetchall()}
    uris = named.intersection(iceberg.small_files(target.stored))
    return _rewrite(query, target, uris, 0, iceberg)


def _rewrite(
    query: Query, target: Table, uris: set[str], rows: int, iceberg: Any
) -> dict[str, Any]:
    """Commit the rows that lie in DuckDB in the place of those of some files, and those that are new."""
    names = ", ".join(quote(name) for name, _ in target.columns)
    hidden = f"{quote(target.database)}.{quote(target.name + WITH_PATH)}"
    chosen = "(SELECT unnest(?))"
    path = quote(PATH)
    sql = f"SELECT {names} FROM {hidden} WHERE {path} IS NULL OR {path} IN {chosen}"
    with query.errors():
        added, _ = iceberg.write(
            target.stored, _batches(query, sql, [sorted(uris)]), query.request["disk_bytes"]
        )
    removed = iceberg.data_files(target.stored, uris)
    if added or removed:
        iceberg.replace(target.stored, added, removed)
    return _report_commit(query, rows, added)


def _vacuum(query: Query) -> dict[str, Any]:
    from headrace.services.athena import iceberg

    stored = query.iceberg.open(query.statement.table, _metadata_of(query.pipe, query.statement))
    iceberg.vacuum(query.iceberg, stored, int(query.request["now_ms"]))
    return _report_commit(query, 0, ())


def _metadata_of(pipe: Pipe, statement: Statement) -> str:
    """Return where an Iceberg table's metadata is; empty of another table. Raises StatementRefused."""
    (described,) = pipe.ask(tables=[list(statement.table)])
    if "missing" in described:
        raise StatementRefused(described["missing"])
    if not described.get("metadata") and statement.action == "vacuum":
        raise StatementRefused("NOT_SUPPORTED: VACUUM is for Iceberg tables alone")
    return str(described.get("metadata") or "")


def _batches(query: Query, sql: str, parameters: Sequence[Any] = ()) -> Any:
    """Return a query's rows as a stream of Arrow's batches."""
    return query.connection.execute(sql, list(parameters)).to_arrow_reader(_ROWS_AT_ONCE)


def _report_commit(query: Query, rows: int, added: Sequence[Any]) -> dict[str, Any]:
    return {
        "columns": [], "rows": rows, "scanned_bytes": query.scanned_bytes(), "act": query.statement.to_dict(),
        "committed": [file.file_path for file in added],
    }  # fmt: skip


_ALTERS = ("add_columns", "drop_column", "change_column", "set_properties", "unset_properties")


def _alter(statement: Statement, request: Mapping[str, Any], pipe: Pipe) -> Statement:
    """Alter an Iceberg table, which leaves the parent nothing to do; return any other statement as it is."""
    metadata = _metadata_of(pipe, statement)
    if not metadata:
        return statement
    options = dict(statement.options)
    if statement.action == "set_properties":
        options["properties"] = iceberg_properties(options["properties"])
    catalog = open_catalog(pipe, Path(request["folder"]))
    from headrace.services.athena import iceberg

    iceberg.alter(catalog.open(statement.table, metadata), statement.action, options)
    return dataclasses.replace(statement, action="altered")


_RUNS: dict[str, Callable[[Query], dict[str, Any]]] = {
    "query": _select,
    "explain": _explain,
    "insert": _write,
    "create_table_as": _write,
    "unload": _write,
    "delete": _change_rows,
    "update": _change_rows,
    "merge": _change_rows,
    "optimize": _optimize,
    "vacuum": _vacuum,
}

if __name__ == "__main__":
    main()
