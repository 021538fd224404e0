"""Writes a script as a PySpark job: plain DataFrame code that needs nothing of headrace, and runs alone on EMR.

What a query's progress depends on: written beside its checkpoint, and compared before it goes on from there.

Spark gives a changed query the rows of its old state, or ends with an error of Java; a refusal says what was changed.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headrace.sql import avro, matching, operators, patterns, python_function
from headrace.sql.conversions import spark_cast, spark_moment, spark_written
from headrace.sql.functions import function_of
from headrace.sql.join_chains import take_chains_apart
from headrace.sql.own_functions import spark_name, type_of
from headrace.sql.plan import (
    JoinPlan,
    QueryPlan,
    Relation,
    RelationColumn,
    Script,
)
from headrace.sql.pyspark_query import Names, QueryWriter, is_with_table
from headrace.sql.spark_text import SparkText, literal, name, string
from headrace.sql.statements import Call, Column, Over, walk
from headrace.sql.types import DATE, STRING, TIME, TIMESTAMP, Function, SqlError, SqlType

# A text of SQL is at most a fiftieth of it.
_LONGEST_JOB = 50_000_000
_TABLES_MARK, _VIEWS_MARK, _AVRO_MARK, _FUNCTIONS_MARK = (
    f"# --- {what} ---\n" for what in ("tables", "views", "avro", "functions")
)
_LATE_MARK, _COUNTS_MARK = "# --- late ---\n", "# --- late counts ---\n"
_WINDOWS_MARK, _SESSIONS_MARK = "# --- windows ---\n", "# --- sessions ---\n"
_PATTERNS_MARK, _MATCHER_MARK = "# --- patterns ---\n", "# --- matcher ---\n"
_OF_JOB_MARK = "# --- of the job too ---\n"


def compile_script(script: Script, title: str) -> str:
    """Return the source of a job that runs all queries of `script`; `title` says where the script came from."""
    return _Compiler(script, title).source()


class _Compiler:
    def __init__(self, script: Script, title: str) -> None:
        # What a query's progress depends on is said of the whole query.
        self._whole = script
        self._whole_by_name = {query.name: query for query in script.queries}
        script = self._script = take_chains_apart(script)
        self._title = title
        self._names = Names()
        self._writer = QueryWriter(script, self._names)
        self._own = _own_functions(script)
        self._has_tables = any(
            query.is_of_tables() or bool(query.sliding) or is_with_table(query)
            for query in script.queries
        )

    def source(self) -> str:
        """Return the whole job."""
        frame = Path(__file__).with_name("job_frame.py.txt").read_text(encoding="utf-8")
        # Between two marks is what only joins with tables, tables' queries or Avro's records need.
        has_patterns = any(query.match is not None for query in self._script.queries)
        has_sessions = any(query.corrects_sessions() for query in self._script.queries)
        has_late = any(query.late for query in self._script.queries)
        needs = (
            (_TABLES_MARK, self._has_tables),
            (_PATTERNS_MARK, has_patterns),
            (_VIEWS_MARK, self._has_views()),
            (_AVRO_MARK, self._has_avro()),
            (_LATE_MARK, has_late),
            (_COUNTS_MARK, has_late or has_sessions),
            (_SESSIONS_MARK, has_sessions),
            (_WINDOWS_MARK, self._has_tables or has_sessions),
            (_FUNCTIONS_MARK, bool(self._own)),
        )
        for mark, is_needed in needs:
            frame = "".join(frame.split(mark)[:: 1 if is_needed else 2])
        parts: list[str] = []
        length = 0
        for part in self._functions():
            length += len(part)
            if length > _LONGEST_JOB:
                raise SqlError(
                    f"the job is longer than {_LONGEST_JOB:,} characters: make it two",
                    self._script.queries[-1].location,
                )
            parts.append(textwrap.dedent(part).strip("\n") + "\n")
        body = "\n\n".join(parts)
        title = self._title.replace("\\", "/").replace('"""', "'''")
        frame = frame.replace("# --- progress ---\n", inspect.getsource(progress_problem))
        if has_patterns:
            modules = (inspect.getsource(module) for module in (operators, patterns, matching))
            texts = [source.partition(_OF_JOB_MARK)[2] for source in modules]
            frame = frame.replace(_MATCHER_MARK, "".join(texts))
        # Without what belongs to a file's first lines.
        of_avro = inspect.getsource(avro)
        frame = frame.replace("# --- avro's text ---\n", of_avro[of_avro.index("import base64") :])
        of_functions = inspect.getsource(python_function)
        frame = frame.replace(
            "# --- functions' text ---\n", of_functions[of_functions.index("_BITS") :]
        )
        if self._script.errors:
            frame = frame.replace("ERRORS = None", f"ERRORS = {literal(self._script.errors)}")
        return frame.replace("TITLE", title).replace("# --- queries ---\n", body)

    def _functions(self) -> Iterator[str]:
        used: dict[str, Relation] = {}
        for query in self._script.queries:
            for source in query.inputs():
                used.setdefault(source.relation.name.lower(), source.relation)
        for relation in used.values():
            yield (
                self._internal(relation)
                if self._script.is_internal(relation)
                else self._source(relation)
            )
        for query in self._script.queries:
            yield self._writer.write(query)
        if self._own:
            yield "\n".join(["FUNCTIONS = (", *map(_function, self._own), ")"])
        starts = [
            self._start(query) for query in self._script.queries if not self._writer.is_inner(query)
        ]
        lines = "\n".join(f"    {line}," for line in starts)
        yield f"QUERIES = (\n{lines}\n)"

    def _has_views(self) -> bool:
        return any(view_keys(query) for query in self._script.queries)

    def _has_avro(self) -> bool:
        relations = [one.relation for query in self._script.queries for one in query.inputs()]
        relations += [one.target for one in self._script.queries if one.target is not None]
        return any(relation.format == "AVRO" for relation in relations)

    def _whole_of(self, query: QueryPlan) -> QueryPlan:
        return self._whole_by_name[query.name]

    # Relations.

    def _internal(self, relation: Relation) -> str:
        for query in self._script.queries:
            if query.target == relation and (
                query.sliding or query.match or is_with_table(query) or query.corrects_sessions()
            ):
                how = (
                    "keeps a state of its own"
                    if query.match
                    else "writes micro-batch by micro-batch"
                )
                raise SqlError(
                    f"{query.name} {how}: {relation.name} needs a Kinesis stream, WITH (stream = '..')",
                    query.location,
                )
        pumps = [
            f"{self._names.of('query', q.name)}(spark, arguments)"
            for q in self._script.queries
            if q.target == relation
        ]
        if not pumps:
            problem = f"no query writes into {relation.name}, which is read: WITH (stream = '..')?"
            raise SqlError(problem, relation.location)
        union = pumps[0] + "".join(f".unionByName({pump})" for pump in pumps[1:])
        columns = ", ".join(literal(name(column.name)) for column in relation.columns)
        return (
            f"def {self._names.of('read', relation.name)}(spark, arguments):\n"
            f'    """In-application stream {relation.name}."""\n'
            f"    rows = {union}\n"
            f'    return rows.select({columns}, "_key", "_rowtime", "_order")'
        )

    def _source(self, relation: Relation) -> str:
        kind = "TABLE" if relation.is_table else "STREAM"
        reader, what = (
            ("read_object", "object") if relation.is_object else ("read_kinesis", "Kinesis stream")
        )
        lines = [
            f"def {self._names.of('read', relation.name)}(spark, arguments):",
            f'    """{kind} {relation.name}, line {relation.location.line}: the {what} {relation.stream}."""',
            f"    records = {reader}(spark, arguments, {literal(relation.stream)})",
            f"    rows = read_{relation.format.lower()}(",
            f"        records, {literal(relation.name)}, {self._schema(relation)}{self._sep(relation)},",
            f"        keys={self._keys(relation)!r}, needs_key={relation.needs_key()}, is_table={relation.is_table},",
            f"        rowtime={literal(self._rowtime(relation))},",
            *self._times(relation),
            "    )",
            "    return rows",
        ]
        return "\n".join(lines)

    def _schema(self, relation: Relation) -> str:
        types = [
            c.type if relation.format == "RAW" else _as_written(c.type) for c in relation.columns
        ]
        parts = zip(relation.columns, types, strict=True)
        return literal(", ".join(f"{name(c.name)} {type_.spark()}" for c, type_ in parts))

    def _times(self, relation: Relation) -> list[str]:
        """Return the lines that say how the columns with times are read of what a record has for them."""
        columns = [c for c in relation.columns if _as_written(c.type) != c.type]
        if relation.format == "RAW" or not columns:
            return []
        lines = ["        times={"]
        for column in columns:
            text = name(column.name)
            read, bad = _read_times(text, column.type), _has_bad_time(text, column.type)
            lines.append(f"            {literal(column.name)}: ({literal(read)}, {literal(bad)}),")
        return [*lines, "        },"]

    def _sep(self, relation: Relation) -> str:
        if relation.format == "AVRO":
            return f", {dict(relation.schemas)!r}"
        if relation.is_value:
            (column,) = (one for one in relation.columns if not one.is_key)
            return f", {literal(column.name)}"
        if relation.format != "CSV":
            return ""
        keys = [column.name for column in relation.key_columns()]
        return f", {literal(relation.delimiter)}, {keys!r}"

    def _keys(self, relation: Relation) -> dict[str, str]:
        """Return what reads each of the key's columns of a record's partition key, such as a|b of two."""
        keys = relation.key_columns()
        parts, count = "split(_key, '[|]')", len(keys)
        texts = [
            "_key" if count == 1 else f"CASE WHEN size({parts}) = {count} THEN {parts}[{index}] END"
            for index in range(count)
        ]
        # A partition key is text: no STRUCT, ARRAY or MAP is read of it.
        return {
            one.name: f"cast(NULL AS {one.type.spark()})"
            if one.type.of
            else spark_cast(text, one.type)
            for one, text in zip(keys, texts, strict=True)
        }

    def _rowtime(self, relation: Relation) -> str:
        if not relation.timestamp:
            return "_arrival"
        column = relation.column(relation.timestamp)
        assert column is not None
        if column.type.name == "BIGINT":
            return spark_moment(name(column.name))
        if column.type.name == "STRING":
            return f"to_timestamp({name(column.name)}, {string(relation.timestamp_format)})"
        return name(column.name)

    def _start(self, query: QueryPlan) -> str:
        mode = "append" if query.emit == "FINAL" or not query.is_aggregate else "update"
        stream = "" if query.target is None else query.target.stream or query.target.name
        kind = "sliding" if query.sliding else "with_table" if is_with_table(query) else "plain"
        if query.corrects_sessions():
            mode, kind = "append", "sessions"
        corrects = query.corrects()
        if query.is_of_tables():
            mode, kind, corrects = "append", "tables", True
        format_ = "JSON" if query.target is None else query.target.format
        extras = f", keys={view_keys(query)!r}" if view_keys(query) else ""
        if extras and query.window is not None and query.window.retention_ms is not None:
            extras += f", retention_ms={query.window.retention_ms}"
        if format_ == "AVRO" and query.target is not None:
            extras += f", schema={dict(query.target.schemas)['']!r}"
        if format_ == "CSV" and query.target is not None and query.target.delimiter != ",":
            extras += f", delimiter={literal(query.target.delimiter)}"
        return (
            f"Query({literal(query.name)}, {self._names.of('query', query.name)}, {literal(stream)}, "
            f'"{mode}", "{kind}", corrects={corrects}, format="{format_}", limit={query.limit}, '
            f"state={state_of(self._whole_of(query), self._whole)!r}{extras})"
        )


def _as_written(type_: SqlType) -> SqlType:
    """Return a type with texts in place of its times: numbers, too, stand for these."""
    if type_ in (TIMESTAMP, DATE, TIME):
        return STRING
    return replace(type_, of=tuple(map(_as_written, type_.of)))


def _read_times(text: str, type_: SqlType) -> str:
    """Return the Spark text of a value of `type_`, of one of `_as_written(type_)`."""
    if _as_written(type_) == type_:
        return text
    if type_.name == "ARRAY":
        return f"transform({text}, one -> {_read_times('one', type_.of[0])})"
    if type_.name == "MAP":
        return f"transform_values({text}, (k, one) -> {_read_times('one', type_.of[1])})"
    if type_.name == "STRUCT":
        fields = [
            f"{string(field)}, {_read_times(f'{text}.{name(field)}', of)}"
            for field, of in zip(type_.fields, type_.of, strict=True)
        ]
        return f"CASE WHEN {text} IS NOT NULL THEN named_struct({', '.join(fields)}) END"
    return spark_written(text, type_)


def _has_bad_time(text: str, type_: SqlType) -> str:
    """Return the condition that a value has what is none of its type's times."""
    if _as_written(type_) == type_:
        return "false"
    if type_.name == "STRUCT":
        parts = zip(type_.fields, type_.of, strict=True)
        return f"({' OR '.join(_has_bad_time(f'{text}.{name(field)}', of) for field, of in parts)})"
    if type_.of:
        items = text if type_.name == "ARRAY" else f"map_values({text})"
        return f"coalesce(exists({items}, one -> {_has_bad_time('one', type_.of[-1])}), false)"
    return f"({text} IS NOT NULL AND {spark_written(text, type_)} IS NULL)"


def _own_functions(script: Script) -> list[Function]:
    """Return the functions that CREATE FUNCTION has made and a query calls; refuse two of one name."""
    functions: dict[str, Function] = {}
    calls = (
        part
        for query in script.queries
        for expression in query.expressions()
        for part in walk(expression)
        if isinstance(part, Call) and part.own is not None
    )
    for call in calls:
        function = function_of(call)
        other = functions.setdefault(call.name, function)
        if (other.own, other.result) != (function.own, function.result):
            raise SqlError(
                f"{call.name} was made anew after a query that calls it: a job has one function of a name",
                call.location,
            )
    return list(functions.values())


def _function(function: Function) -> str:
    own = function.own
    assert own is not None
    result = function.result_type(())
    parts = (
        spark_name(function.name),
        own.file,
        own.name,
        own.source,
        type_of(result),
        result.spark(),
    )
    return f"    ({', '.join(map(repr, parts))}),"


def view_keys(query: QueryPlan) -> list[str]:
    """Return the key's columns of the table whose latest state a query keeps; of any other query none."""
    if query.target is None or not query.target.is_table:
        return []
    return [column.name for column in query.target.key_columns()]


def progress_problem(
    name: str, folder: str, entries: Sequence[str], stored: str, state: dict[str, str]
) -> str:
    """Return why the query `name` cannot go on from its progress in `folder`; an empty text if it can, or has none.

    `entries` are the names in the folder, `stored` is its state.json (empty: it has none), `state` what the query
    depends on now. A compiled job has this function too, so that it runs in Python 3.9.
    """
    leave = f"give the query another name or another --checkpoint, or remove {folder} to read its streams again"
    # What sorts out late rows begins before the query does.
    kept = sorted({"rows", "table", "view", "begun"} & set(entries))
    if "checkpoint" in entries and not stored:
        return f"{name}: the checkpoint in {folder} is of another job, since state.json is not beside it: {leave}"
    if "checkpoint" not in entries and kept:
        return f"{name}: the checkpoint in {folder} is lost, but what came of it is there ({', '.join(kept)}): {leave}"
    if not {"checkpoint", "intake"} & set(entries):
        return ""
    if "late rows" in state and "late rows" in stored and "intake" not in entries:
        return f"{name}: the progress of reading in {folder}intake/ is lost, but the checkpoint is there: {leave}"
    try:
        before = dict(json.loads(stored))
    except (ValueError, TypeError):
        return f"{name}: {folder}state.json is not what this job writes: {leave}"
    # A column that the text does not name may be new, or of a type that holds all that it held.
    wider = (("INT", "BIGINT"), ("INT", "DOUBLE"), ("BIGINT", "DOUBLE"))
    parts = [
        one
        for one in {**state, **before}
        if before.get(one) != state.get(one)
        and not ("column " in one and (one not in before or (before[one], state.get(one)) in wider))
    ]
    changes = [f"{one} was {before.get(one, 'none')}, is {state.get(one, 'none')}" for one in parts]
    if not changes:
        return ""
    return f"{name} cannot go on from {folder}: {'; '.join(changes)}. Change it back, or {leave}"


def state_of(query: QueryPlan, script: Script) -> dict[str, str]:
    """Return by part, in words, what a query's progress depends on; what is not here may change.

    These are what it reads, and, if it keeps something, keys, aggregates, window, joins and the columns of a table.
    WHERE, HAVING, GRACE PERIOD and a stream's columns may change: rows from then on have the new ones. Of columns that
    come from a registry, a catalog or records, those that a query reads must be there, with all that they held.
    """
    return dict(_parts(query, script))


def _parts(query: QueryPlan, script: Script, prefix: str = "") -> Iterator[tuple[str, str]]:
    text = SparkText(script.dialect, qualified=bool(query.joins))
    inner = [source.relation for source in query.inputs() if script.is_internal(source.relation)]
    for other in script.queries:
        if other.target in inner:
            yield from _parts(other, script, f"{other.name}'s ")
    keeps = (
        query.is_aggregate
        or query.joins
        or query.sliding
        or query.match
        or query.distinct
        or query.is_of_tables()
    )
    reads = [source.relation for source in query.inputs()]
    yield f"{prefix}input", ", ".join(_input(one, with_time=bool(keeps)) for one in reads)
    for column, relation in _found_columns(query):
        yield f"{prefix}column {column.name} of {relation.name}", str(column.type)
    if query.is_of_tables() or query.joins or query.sliding:
        for source in query.inputs():
            columns = (f"{one.name} {one.type}" for one in source.relation.columns)
            yield f"{prefix}columns of {source.relation.name}", ", ".join(columns)
    for number, join in enumerate(query.joins, 1):
        yield f"{prefix}join {number}", _join(join, text)
    if query.is_aggregate:
        yield (
            f"{prefix}GROUP BY",
            ", ".join(f"{text.write(one.expression)} {one.type}" for one in query.keys)
            or "all rows together",
        )
        yield (
            f"{prefix}aggregates",
            ", ".join(f"{text.write(one.call)} {one.type}" for one in query.aggregates) or "none",
        )
        yield f"{prefix}EMIT", query.emit
    if query.window is not None:
        window = query.window
        yield f"{prefix}window", f"{window.kind} of {window.size_ms} ms by {window.advance_ms} ms"
    if query.sliding:
        yield f"{prefix}windows", ", ".join(_over(one.over, text) for one in query.sliding)
    if query.match is not None:
        match = query.match
        columns = ", ".join(f"{text.write(one.expression)} {one.type}" for one in match.columns)
        by = ", ".join(text.write(one.expression) for one in match.partition) or "all rows together"
        yield (
            f"{prefix}MATCH_RECOGNIZE",
            f"{match.pattern} by {by} where {match.conditions} of {columns} within {match.within_ms} ms",
        )
    if query.late:
        yield f"{prefix}late rows", "to a stream of their own"
    if query.distinct:
        yield f"{prefix}DISTINCT", ", ".join(f"{one.name} {one.type}" for one in query.outputs)
    if query.target is not None and query.target.is_table:
        columns = query.target.columns
        yield (
            f"{prefix}columns",
            ", ".join(f"{one.name} {one.type}{' KEY' * one.is_key}" for one in columns),
        )


def _found_columns(query: QueryPlan) -> Iterator[tuple[RelationColumn, Relation]]:
    """Return the columns that a query reads and that the text does not name: those of a registry may change."""
    read = {
        (part.relation, part.name)
        for expression in query.expressions()
        for part in walk(expression)
        if isinstance(part, Column)
    }
    for source in query.inputs():
        for column in source.relation.columns if source.relation.origin else ():
            if (source.alias, column.name) in read:
                yield column, source.relation


def _input(relation: Relation, *, with_time: bool) -> str:
    name = relation.stream or relation.name
    return (
        f"{name} by the time in {relation.timestamp}" if with_time and relation.timestamp else name
    )


def _join(join: JoinPlan, text: SparkText) -> str:
    on = f"{text.write(join.left_key)} = {text.write(join.right_key)}"
    reach = (
        f", {join.before_ms} ms before to {join.after_ms} ms after"
        if join.method == "streams"
        else ""
    )
    return f"{join.kind} of {join.method} with {join.right.relation.name} ON {on}{reach}"


def _over(over: Over, text: SparkText) -> str:
    frame = over.frame
    keys = ", ".join(map(text.write, frame.partition)) or "all rows together"
    reach = f"{frame.rows} rows" if frame.range_ms is None else f"{frame.range_ms} ms"
    return f"{text.write(over.call)} by {keys} over {reach}"
