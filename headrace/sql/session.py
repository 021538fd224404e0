"""A session of the prompt: statements one by one, and rows of a query at once, by the fold, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from headrace.sql import conversions
from headrace.sql.analysis import Analysis
from headrace.sql.explain import explain
from headrace.sql.fold import Fold, ResultRow, result_of
from headrace.sql.functions import FUNCTIONS, find_function
from headrace.sql.parsing import parse
from headrace.sql.plan import (
    WINDOW_START,
    QueryPlan,
    Relation,
    RelationColumn,
    Scope,
    Script,
)
from headrace.sql.records import Record, record_of
from headrace.sql.statements import (
    Cast,
    Column,
    Describe,
    Explain,
    Expression,
    InsertValues,
    Query,
    Show,
    Statement,
    Terminate,
    walk,
)
from headrace.sql.types import (
    NULL,
    SqlError,
    SqlType,
    common,
    near,
    result_word,
    signature,
)
from headrace.sql.typing import resolve
from headrace.sql.values import evaluator
from headrace.sql.views import View, pull, push

# Records of streams, oldest first, in parts; an empty part says that no more are there at the moment.
# Puts a record into a stream: its name, partition key and data.
Writer = Callable[[str, str, bytes], None]
Reader = Callable[[Sequence[str]], Iterator[list[tuple[str, Record]]]]
HELP = r"""CREATE STREAM | TABLE ..;   declare a stream, or name a query's result
SELECT .. FROM table;       each key's latest row; with EMIT CHANGES also each change
SELECT ..;                  rows from the streams' oldest record on; EMIT CHANGES follows them until Ctrl-C
SHOW STREAMS | TABLES | QUERIES | FUNCTIONS | TYPES | VARIABLES | PROPERTIES | TOPICS [EXTENDED];
DESCRIBE name;   DESCRIBE FUNCTION name;   EXPLAIN query;   EXPLAIN SELECT ..;
CREATE TYPE | FUNCTION ..;   DEFINE name = '..';   TERMINATE query;   DROP STREAM | TABLE | TYPE | FUNCTION name;
\d [name]  what there is    \h  this    \q  end"""

_SHOWN = (
    "STREAMS", "TABLES", "QUERIES", "FUNCTIONS", "TYPES", "VARIABLES", "PROPERTIES", "TOPICS",
)  # fmt: skip


@dataclass(frozen=True)
class Views:
    """Where the states of tables are: `open` gives a table's by its query's name, `wait` stands between two looks."""

    open: Callable[[Relation, str], View]
    wait: Callable[[], None]


class Session:
    """What has been declared so far. For one thread.

    With `write`, INSERT INTO .. VALUES puts a record. With `views`, a query of one table that another query makes is
    answered from its stored state. With `streams`, SHOW TOPICS names those too that nothing has declared.
    """

    def __init__(
        self,
        analysis: Analysis,
        read: Reader,
        views: Views | None = None,
        write: Writer | None = None,
        streams: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._analysis = analysis
        self._read = read
        self._views = views
        self._write = write
        self._streams = streams
        # The fold of the last query of streams, until it is told what it left out.
        self._fold: Fold | None = None

    def left_out(self) -> Iterator[str]:
        """Say how many records and rows the last query left out; once."""
        fold, self._fold = self._fold, None
        if fold is None:
            return
        read = {source.relation.name for query in fold.script.queries for source in query.inputs()}
        for name in sorted(read & set(fold.unreadable)):
            yield f"records of {name} that cannot be read, and are left out: {fold.unreadable[name]:,}"
        if late := sum(fold.late.values()):
            yield f"rows that are late, and are left out: {late:,}"

    def words(self) -> list[str]:
        """Return the names of streams, columns and functions, for completion."""
        relations = self._analysis.relations.values()
        names = {relation.name for relation in relations}
        names |= {column.name for relation in relations for column in relation.columns}
        return sorted({*names, *FUNCTIONS, *(query.name for query in self._analysis.queries)})

    def answer(self, text: str) -> Iterator[str]:
        """Do what `text` says, and return the lines to show; raises SqlError, with what came before it done."""
        command, _, name = text.strip().rstrip(";").partition(" ")
        if command in ("\\h", "\\?"):
            yield HELP
        elif command == "\\d":
            yield from (
                self._describe(name.strip())
                if name.strip()
                else (line for line, _ in self._lines(is_table=None))
            )
        else:
            for statement in parse(text, self._analysis.words):
                yield from self._answer(statement)

    def _answer(self, statement: Statement) -> Iterator[str]:
        match statement:
            case Query():
                yield from self._rows(statement)
            case Show():
                yield from self._show(statement)
            case Describe(name=name):
                describe = self._describe_function if statement.is_function else self._describe
                yield from describe(name)
            case InsertValues() if self._write is not None:
                relation, values = _values_of(self._analysis, statement)
                self._write(relation.stream, *record_of(relation, values))
                yield "ok"
            case Explain():
                query = self._analysis.plan(statement.query)
                yield from explain(replace(self._analysis.script(), queries=(query,)))
            case Terminate(query=name):
                self._analysis.terminate(name, statement.location)
                yield f"{name} is not there any more; a job that runs it goes on until Ctrl-C"
            case _:
                count, notes = len(self._analysis.queries), len(self._analysis.notes)
                self._analysis.take(statement)
                yield from (f"note: {note}" for note in self._analysis.notes[notes:])
                for query in self._analysis.queries[count:]:
                    yield from (f"warning: {warning}" for warning in query.warnings)
                yield "ok"

    def _show(self, statement: Show) -> Iterator[str]:
        words = self._analysis.words
        match statement.what:
            case "STREAMS" | "TABLES":
                for line, relation in self._lines(is_table=statement.what == "TABLES"):
                    yield line
                    if statement.is_extended:
                        yield from (f"  {column}" for column in _columns(relation))
            case "QUERIES":
                for query in self._analysis.queries:
                    yield _line(query)
                    if statement.is_extended:
                        yield from explain(replace(self._analysis.script(), queries=(query,)))
            case "FUNCTIONS":
                yield from sorted({*FUNCTIONS, *self._analysis.functions})
            case "TYPES":
                yield from (f"{name}  {type_}" for name, type_ in sorted(words.types.items()))
            case "VARIABLES":
                yield from (f"{name}  {value}" for name, value in sorted(words.variables.items()))
            case "PROPERTIES":
                properties = {"auto.offset.reset": "earliest", **self._analysis.settings}
                yield from (f"{name}  {value}" for name, value in sorted(properties.items()))
            case "TOPICS":
                relations = self._analysis.relations.values()
                yield from sorted({*(one.stream for one in relations), *self._streams()} - {""})
            case what:
                raise SqlError(f"SHOW {what}{near(what, _SHOWN)}", statement.location)

    def _describe_function(self, name: str) -> Iterator[str]:
        function = self._analysis.functions.get(name.upper()) or find_function(name)
        if function is None:
            names = [*FUNCTIONS, *self._analysis.functions]
            yield f"no function {name!r}{near(name, names)}"
        else:
            yield f"{signature(function)}  {result_word(function)}  {function.kind}"
            if function.own is not None:
                yield f"  {function.own.name} of {function.own.file}"

    def _lines(self, *, is_table: bool | None) -> Iterator[tuple[str, Relation]]:
        """Return each relation with its line."""
        for relation in self._analysis.relations.values():
            if is_table in (None, relation.is_table):
                kind = "TABLE " if relation.is_table else "STREAM"
                stream = relation.stream or "in the application"
                yield f"{kind}  {relation.name}  {stream}  {relation.format}", relation

    def _describe(self, name: str) -> Iterator[str]:
        """Return a relation's columns, or what a query does."""
        relation = self._analysis.relations.get(name.lower())
        query = next((q for q in self._analysis.queries if q.name.lower() == name.lower()), None)
        if relation is not None:
            yield from _columns(relation)
        if query is not None:
            script = self._analysis.script()
            yield from explain(replace(script, queries=(query,)))
        if relation is None and query is None:
            names = [one.name for one in self._analysis.relations.values()]
            names += [one.name for one in self._analysis.queries]
            yield f"no stream, table or query {name!r}{near(name, names)}"

    def _rows(self, statement: Query) -> Iterator[str]:
        """Return a query's rows; without EMIT CHANGES those that are there now."""
        query, follows = self._analysis.plan(statement), statement.select.emit == "CHANGES"
        view = self._view(query)
        if view is None:
            rows = self._fold_rows(query, follows=follows)
        elif follows:
            assert self._views is not None
            rows = map(result_of, push(query, view, self._views.wait))
        else:
            rows = map(result_of, pull(query, view))
        shown: set[str] = set()
        for row in rows:
            if not row.deleted:
                shown.add(row.key)
                # Half of a surrogate pair has no UTF-8: it stays escaped.
                text = json.dumps(row.columns, ensure_ascii=False)
                yield text.encode(errors="backslashreplace").decode()
            elif row.key in shown or query.is_of_tables():
                yield f"deleted {row.key}"

    def _view(self, query: QueryPlan) -> View | None:
        """Return the stored state of the one table that a query reads; None if there is no such."""
        relation = query.source.relation
        if self._views is None or query.joins or not relation.is_table:
            return None
        maker = next((one for one in self._analysis.queries if one.target == relation), None)
        if maker is not None and query.reads_numbers():
            raise SqlError(
                f"{relation.name}'s stored state keeps no shards and sequence numbers of its records, nor do ksqlDB's "
                "pull queries: select them where the table is made, LATEST_BY_OFFSET(ROWOFFSET) AS number",
                query.location,
            )
        return None if maker is None else self._views.open(relation, maker.name)

    def _fold_rows(self, query: QueryPlan, *, follows: bool) -> Iterator[ResultRow]:
        """Return a query's rows as they come of the streams, by the fold.

        Of tables and of groups that are not followed, each key's last one: its changes depend on the parts.
        """
        script = self._analysis.script()
        fold, count = Fold(replace(script, queries=(*script.queries, query)).needed_by([query])), 0
        self._fold = fold
        is_state = not follows and (query.is_of_tables() or query.corrects())
        latest: dict[tuple[Any, ...], ResultRow] = {}
        inputs = [source for one in fold.script.queries for source in one.inputs()]
        if any(source.relation.is_object for source in inputs):
            raise SqlError(
                "a reference table in S3 is read by a job: `headrace sql run`", query.location
            )
        for part in self._read(sorted(_streams(fold.script))):
            if not part and not follows:
                break
            fold.take_batch(part)
            fold.settle()
            rows = fold.results[query.name]
            if is_state:
                latest |= {(row.key, row.columns.get(WINDOW_START)): row for row in rows[count:]}
            else:
                yield from rows[count:]
            count = len(rows)
            if query.limit is not None and count >= query.limit:
                break
        yield from (row for row in latest.values() if not row.deleted)


def _line(query: QueryPlan) -> str:
    sources = ", ".join(source.relation.name for source in query.inputs())
    return f"{query.name}  reads {sources}  into {query.target.name if query.target else 'the terminal'}"


def _columns(relation: Relation) -> Iterator[str]:
    for column in relation.columns:
        key = ("  PRIMARY KEY" if relation.is_table else "  KEY") if column.is_key else ""
        time = "  the event's time" if column.name == relation.timestamp else ""
        yield f"{column.name}  {column.type}{key}{time}"


def _streams(script: Script) -> set[str]:
    """Return the streams to read: not those that a query of the script itself writes."""
    read = {source.relation.stream for query in script.queries for source in query.inputs()}
    written = {query.target.stream for query in script.queries if query.target is not None}
    return read - written - script.streams_aside() - {""}


def _values_of(analysis: Analysis, statement: InsertValues) -> tuple[Relation, dict[str, Any]]:
    """Return the stream of INSERT INTO .. VALUES, and its row's values by column; raises SqlError."""
    target = analysis.relations.get(statement.target.lower())
    if target is None or not target.stream or target.is_object:
        names = [known.name for known in analysis.relations.values() if known.stream]
        raise SqlError(
            f"no stream {statement.target!r}{near(statement.target, names)}", statement.location
        )
    names = statement.columns or tuple(column.name for column in target.columns)
    if len(names) != len(statement.values):
        raise SqlError(
            f"{target.name} has {len(names)} columns, and there are {len(statement.values)} values",
            statement.location,
        )
    values: dict[str, Any] = {}
    for name, expression in zip(names, statement.values, strict=True):
        column = target.column(name)
        if column is None:
            columns = [known.name for known in target.columns]
            raise SqlError(
                f"no column {name!r} in {target.name}{near(name, columns)}", statement.location
            )
        named = next((part for part in walk(expression) if isinstance(part, Column)), None)
        if named is not None:
            raise SqlError(f"VALUES are constants, and {named.name} is a column", named.location)
        resolved, type_ = resolve(expression, Scope((), functions=analysis.functions))
        if common(column.type, type_) is None:
            raise SqlError(
                f"{target.name}.{column.name} is {column.type}, not {type_}", expression.location
            )
        values[column.name] = _constant_of(target, column, expression, resolved, type_)
    missing = [
        c.name for c in target.key_columns() if target.is_table and values.get(c.name) is None
    ]
    if missing:
        raise SqlError(
            f"a row of the table {target.name} needs its key, {missing[0]}", statement.location
        )
    return target, values


def _constant_of(
    target: Relation,
    column: RelationColumn,
    expression: Expression,
    resolved: Expression,
    type_: SqlType,
) -> Any:
    """Return a value of INSERT INTO as its column's type; raises SqlError for one that the type does not hold."""
    value = evaluator(resolved)({})
    if value is None or type_ == NULL:
        return None
    held = evaluator(Cast(resolved, column.type, location=expression.location))({})
    is_exact = isinstance(held, (int, Decimal)) and isinstance(value, (int, float, Decimal))
    if held is None or (is_exact and held != value):
        raise SqlError(
            f"{target.name}.{column.name} is {column.type}, which does not hold {conversions.text(value)}",
            expression.location,
        )
    return held
