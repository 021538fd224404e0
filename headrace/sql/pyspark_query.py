"""Writes one query of a script as a function of a PySpark job."""

from __future__ import annotations

import keyword
import re
from dataclasses import replace

from headrace.sql.functions import function_of
from headrace.sql.join_chains import is_part, owner_of
from headrace.sql.plan import KINESIS_ANALYTICS, Input, JoinPlan, Named, QueryPlan, Script
from headrace.sql.rewriting import rewrite
from headrace.sql.spark_text import SparkText, expr, interval, literal, match_lines, name
from headrace.sql.statements import Call, Column, Expression, Field, walk

_NOTHING = "'all'"
_JOIN_KINDS = {"INNER": "inner", "LEFT": "leftOuter", "RIGHT": "rightOuter", "FULL": "fullOuter"}
_ELEMENT = Column("_element")
# Where a micro-batch is finished: in a function of the query's own.
_IN_BATCH = " " * 8
_RETURN_UNION = ("", "    return union, finish")


def _elements(count: int) -> list[Expression]:
    """Return what reads each of several arrays' elements, which arrays_zip names by their numbers."""
    return [Field(_ELEMENT, str(number)) for number in range(count)]


def _has_tombstones(query: QueryPlan) -> bool:
    """Return whether a group that HAVING leaves out may have been shown before."""
    if query.is_of_tables() or query.corrects_sessions():
        return False
    return query.corrects() and query.having is not None


def is_with_table(query: QueryPlan) -> bool:
    """Return whether a query joins a stream with tables."""
    return bool(query.joins) and query.joins[0].method == "stream-table"


def _is_table_function(part: Expression) -> bool:
    return isinstance(part, Call) and function_of(part).kind == "table"


def _late(query: QueryPlan) -> str:
    """Return what sorts out late rows: query, stream, grace, and when the first and the last of a row's windows end."""
    at, window = "unix_micros(_rowtime)", query.window
    first = last = at
    if window is None:
        grace_ms = query.joins[0].grace_ms if query.match is None else query.match.grace_ms
    else:
        grace_ms, size_us, advance_us = (
            window.grace_ms,
            window.size_ms * 1000,
            window.advance_ms * 1000,
        )
        first = last = f"{at} + {size_us}L"
        if window.kind != "SESSION":
            first = f"{at} - pmod({at} - {size_us}L, {advance_us}L) + {advance_us}L"
            last = f"{at} - pmod({at}, {advance_us}L) + {size_us}L"
    return ", ".join(map(repr, (owner_of(query.name), query.late, grace_ms * 1000, first, last)))


class Names:
    """Gives relations and queries names of functions, each its own."""

    def __init__(self) -> None:
        self._taken: set[str] = {"spark", "main", "F", "rows"}
        self._names: dict[tuple[str, str], str] = {}

    def of(self, kind: str, text: str) -> str:
        """Return the name of the function of a relation or a query; `kind` is read or query."""
        key = (kind, text.lower())
        if key not in self._names:
            plain = re.sub(r"\W", "_", text.lower()).strip("_") or "relation"
            plain = f"{kind}_{plain}"
            result, count = plain, 1
            while result in self._taken or keyword.iskeyword(result):
                count += 1
                result = f"{plain}_{count}"
            self._taken.add(result)
            self._names[key] = result
        return self._names[key]


class QueryWriter:
    """Writes the functions of a script's queries, which read relations by the functions that `names` gives."""

    def __init__(self, script: Script, names: Names) -> None:
        self._script = script
        self._names = names

    def is_inner(self, query: QueryPlan) -> bool:
        """Return whether another query alone reads what a query writes."""
        return query.target is not None and self._script.is_internal(query.target)

    def write(self, query: QueryPlan) -> str:
        """Return the function that makes a query's rows."""
        joined = bool(query.joins)
        text = SparkText(self._script.dialect, qualified=joined)
        with_table = is_with_table(query)
        lines = [f"def {self._names.of('query', query.name)}(spark, arguments):"]
        lines.append(f'    """{self._title_of(query)}"""')
        if query.is_of_tables():
            return "\n".join([*lines, *self._of_tables(query, text)])
        if with_table:
            lines += self._table_joins(query, text)
            return "\n".join([*lines, *self._finish(query, text, _IN_BATCH), *_RETURN_UNION])
        lines.append(f"    rows = {self._read(query.source)}(spark, arguments)")
        if query.sliding:
            return "\n".join([*lines, *self._sliding(query, text)])
        steps: list[str] = []
        if query.match is not None:
            steps += match_lines(
                query, query.match, SparkText(self._script.dialect, qualified=False)
            )
        if query.late and not joined:
            # What Spark keeps a state of reads the rows in time alone.
            condition = query.where if query.match is None else query.match.where
            if condition is not None:
                lines.append(f"    rows = rows.where({literal(text.write(condition))})")
            lines.append(f"    rows = in_time(arguments, rows, {_late(query)})")
            query = query if query.match is not None else replace(query, where=None)
        if query.corrects_sessions():
            return "\n".join([*lines, *self._sessions(query, text)])
        return "\n".join([*lines, *steps, *self._steps(query, text)])

    def _sessions(self, query: QueryPlan, text: SparkText) -> list[str]:
        """Return the lines of a query whose sessions grow and merge, over the rows of those that a row may touch."""
        assert query.window is not None
        lines: list[str] = []
        if query.where is not None:
            lines.append(f"    rows = rows.where({literal(text.write(query.where))})")
        grouped = [*(one.expression for one in query.keys), *(one.call for one in query.aggregates)]
        parts = [part for one in grouped for part in walk(one) if isinstance(part, Column)]
        known = {column.name for column in query.source.relation.columns}
        needed = {
            f"F.col({literal(name(part.name))})": None for part in parts if part.name in known
        }
        lines.append(
            f'    rows = rows.select({"".join(f"{one}, " for one in needed)}"_rowtime", "_order")'
        )
        keys = ", ".join(literal(text.write(key.expression)) for key in query.keys)
        gap_us, grace_us = query.window.size_ms * 1000, query.window.grace_ms * 1000
        return [
            *lines,
            "",
            "    def finish(rows):",
            *self._finish(replace(query, where=None), text, _IN_BATCH),
            "",
            f"    return rows, (finish, [{keys}], {gap_us}, {grace_us})",
        ]

    def _sliding(self, query: QueryPlan, text: SparkText) -> list[str]:
        """Return the lines of a query with sliding windows, over a micro-batch and the rows before that they hold."""
        lines: list[str] = []
        if query.where is not None:
            lines.append(f"    rows = rows.where({literal(text.write(query.where))})")
        lines += ["", "    def finish(rows):", "        rows = rows.select(", '            "*",']
        keeps: list[str] = []
        for one in query.sliding:
            frame = one.over.frame
            by = ", ".join(text.write(part) for part in frame.partition)
            by = f"PARTITION BY {by} " if by else ""
            if frame.range_ms is None:
                order, reach = (
                    "_rowtime, _order",
                    f"ROWS BETWEEN {frame.rows} PRECEDING AND CURRENT ROW",
                )
                keeps.append(
                    f"row_number() OVER ({by}ORDER BY _rowtime DESC, _order DESC) <= {frame.rows}"
                )
            else:
                # A row as old as the window is long is out of it, as AWS's guide counts.
                micros = frame.range_ms * 1000 - 1
                interval = f"INTERVAL '{micros // 1_000_000}.{micros % 1_000_000:06}' SECOND"
                order, reach = "_rowtime", f"RANGE BETWEEN {interval} PRECEDING AND CURRENT ROW"
                keeps.append(f"max(_rowtime) OVER () - _rowtime <= {interval}")
            call = text.write(one.over.call)
            window = f"OVER ({by}ORDER BY {order} {reach})"
            # FIRST_VALUE and LAST_VALUE take a field of what they find, by time as the window goes.
            field = ".v" if call.endswith(").v") else ""
            call = call.removesuffix(".v").replace(
                "AS v), _order", "AS v), struct(_rowtime, _order)"
            )
            lines.append(f'            {expr(f"({call} {window}){field}")}.alias("{one.name}"),')
        lines.append(f'            {expr(" OR ".join(keeps))}.alias("_is_kept"),')
        return [*lines, "        )", "        return rows", "", *self._sliding_end(query, text)]

    def _sliding_end(self, query: QueryPlan, text: SparkText) -> list[str]:
        lines = ["    def results(rows):"]
        if query.having is not None:
            lines.append(f"        rows = rows.where({literal(text.write(query.having))})")
        lines += self._outputs(query, text, "        ")
        return [*lines, "", "    return rows, (finish, results)"]

    def _title_of(self, query: QueryPlan) -> str:
        target = "shown" if query.target is None else query.target.name
        return f"Query {query.name}, line {query.location.line}, into {target}.".replace('"', "'")

    def _read(self, source: Input) -> str:
        return self._names.of("read", source.relation.name)

    def _steps(self, query: QueryPlan, text: SparkText) -> list[str]:
        lines: list[str] = []
        for join in query.joins:
            is_object = join.method == "object"
            lines += (self._object_join if is_object else self._stream_join)(query, join, text)
        # Before the watermark, to which Spark moves conditions anyway, unless they name the time.
        if query.where is not None:
            lines.append(f"    rows = rows.where({literal(text.write(query.where))})")
        if query.window is not None and not query.joins:
            lines.append(
                f'    rows = rows.withWatermark("_rowtime", {literal(interval(query.window.grace_ms))})'
            )
        return lines + self._finish(query, text, "    ")

    def _finish(self, query: QueryPlan, text: SparkText, pad: str) -> list[str]:
        lines: list[str] = []
        if pad == _IN_BATCH and query.where is not None:
            lines.append(f"{pad}rows = rows.where({literal(text.write(query.where))})")
        if query.is_aggregate:
            lines += self._groups(query, text, pad)
            text = SparkText(self._script.dialect, qualified=False, gap_ms=query.gap_ms())
            if query.having is not None:
                condition = text.write(query.having)
                lines.append(
                    f'{pad}rows = rows.withColumn("_deleted", {expr(f"NOT coalesce({condition}, false)")})'
                    if _has_tombstones(query)
                    else f"{pad}rows = rows.where({literal(condition)})"
                )
        return lines + self._outputs(query, text, pad)

    def _of_tables(self, query: QueryPlan, text: SparkText) -> list[str]:
        """Return the lines of a query of tables: their rows in one frame, and the result of all of them."""
        lines = ["    union = table_rows("]
        for source in query.inputs():
            keys = ", ".join(name(key.name) for key in source.relation.key_columns())
            lines.append(f"        ({self._read(source)}(spark, arguments), {literal(keys)}),")
        lines += ["    )", "", "    def finish(rows):"]
        if query.joins:
            lines.append(f"        rows = join_tables(rows, {literal(query.source.alias)},")
            for join in query.joins:
                on = literal(f"{text.write(join.left_key)} = {text.write(join.right_key)}")
                alias, kind = literal(join.right.alias), _JOIN_KINDS[join.kind]
                lines.append(f'            ({alias}, {on}, "{kind}"),')
            lines.append("        )")
        else:
            lines.append('        rows = rows.where("_side = 0").select("_row_0.*")')
        return [*lines, *self._finish(query, text, _IN_BATCH), *_RETURN_UNION]

    def _groups(self, query: QueryPlan, text: SparkText, pad: str) -> list[str]:
        keys = [
            f"{expr(text.write(key.expression))}.alias({literal(key.name)})" for key in query.keys
        ]
        lines: list[str] = []
        window = query.window
        time = f"{name(query.source.alias)}._rowtime" if query.joins else "_rowtime"
        if window is not None:
            size, advance = (
                literal(interval(window.size_ms)),
                literal(interval(window.advance_ms)),
            )
            call = {
                "TUMBLING": f"F.window({literal(time)}, {size})",
                "HOPPING": f"F.window({literal(time)}, {size}, {advance})",
                "SESSION": f"F.session_window({literal(time)}, {size})",
            }[window.kind]
            keys.insert(0, f'{call}.alias("_window")')
            if query.corrects_sessions():
                keys[0] = '"_window"'
            if query.late and window.kind == "HOPPING":
                # Of a row that is late for some of its windows, the others alone.
                sorted_out = '"unix_micros(_window.end) > _late_until"'
                lines += [f'{pad}rows = rows.withColumn("_window", {call}).where({sorted_out})']
                keys[0] = '"_window"'
        sums = [
            f"{expr(text.write(one.call))}.alias({literal(one.name)})" for one in query.aggregates
        ]
        sums = sums or ['F.count(F.lit(1)).alias("_count")']
        return [
            *lines,
            f"{pad}rows = rows.groupBy(",
            *(f"{pad}    {key}," for key in keys),
            f"{pad}).agg(",
            *(f"{pad}    {one}," for one in sums),
            f"{pad})",
        ]

    def _outputs(self, query: QueryPlan, text: SparkText, pad: str) -> list[str]:
        lines, outputs = self._explode(query, text, pad)
        lines.append(f"{pad}rows = rows.select(")
        lines += [f"{pad}    {self._output(output, text)}," for output in outputs]
        names = {output.name.upper() for output in query.outputs}
        if query.window is not None and self._script.dialect != KINESIS_ANALYTICS:
            for bound, path in (("WINDOWSTART", "_window.start"), ("WINDOWEND", "_window.end")):
                if bound not in names:
                    lines.append(f'{pad}    F.expr("{text.bound(path)}").alias("{bound}"),')
        lines += [f"{pad}    {column}," for column in self._list_hidden_columns(query, text)]
        if _has_tombstones(query):
            lines.append(f'{pad}    "_deleted",')
        lines.append(f"{pad})")
        if query.distinct:
            values = ", ".join(literal(output.name) for output in query.outputs)
            lines.append(f"{pad}rows = rows.dropDuplicates([{values}])")
        lines.append(f"{pad}return rows")
        return lines

    def _explode(
        self, query: QueryPlan, text: SparkText, pad: str
    ) -> tuple[list[str], tuple[Named, ...]]:
        """Return the lines that make a row of each element, and the outputs that read it."""
        calls = [
            part
            for output in query.outputs
            for part in walk(output.expression)
            if _is_table_function(part)
        ]
        if not calls:
            return [], query.outputs
        # What the function explodes: Spark's own writes it as explode(array). Several go on side by side.
        arrays = [text.write(call).removeprefix("explode(").removesuffix(")") for call in calls]
        if len(arrays) > 1:
            arrays = [f"coalesce({array}, array())" for array in arrays]
            arrays = [f"arrays_zip({', '.join(arrays)})"]
        line = f'{pad}rows = rows.select("*", F.posexplode({expr(arrays[0])}).alias("_position", "_element"))'
        elements = iter([_ELEMENT] if len(calls) == 1 else _elements(len(calls)))
        outputs = tuple(
            replace(
                one,
                expression=rewrite(
                    one.expression,
                    lambda part: next(elements) if _is_table_function(part) else None,
                ),
            )
            for one in query.outputs
        )
        return [line], outputs

    def _output(self, output: Named, text: SparkText) -> str:
        written = text.write(output.expression)
        if isinstance(output.expression, Column) and written == name(output.name):
            return f"F.col({literal(name(output.name))})"
        return f"{expr(written)}.alias({literal(output.name)})"

    def _list_hidden_columns(self, query: QueryPlan, text: SparkText) -> list[str]:
        """Return the columns that a row carries besides its own: partition key, time, order, and what it is."""
        has_elements = any(
            _is_table_function(part) for output in query.outputs for part in walk(output.expression)
        )
        if query.is_aggregate:
            keys = ", ".join(f"cast({name(key.name)} AS STRING)" for key in query.keys)
            key = f"concat_ws('|', {keys})" if keys else "'all'"
            time = 'F.window_time("_window")' if query.window else 'F.expr("timestamp_millis(0L)")'
            parts = [name(key.name) for key in query.keys]
            parts += ["_window.start"] * bool(query.window) + ["_position"] * has_elements
            if query.corrects_sessions():
                # Its bounds alone tell a tombstone's session. Spark knows no window in a struct.
                bounds = ", ".join(map(text.bound, ("_window.start", "_window.end")))
                key = f"concat_ws('|', {keys}, {bounds})" if keys else f"concat_ws('|', {bounds})"
                time = """F.expr("_window.end - INTERVAL '0.000001' SECOND")"""
                parts.append("_window.end")
            identity = ", ".join(parts)
            order = "struct(timestamp_millis(0L) AS arrival, '' AS number)"
            return [
                f'{expr(key)}.alias("_key")',
                f'{time}.alias("_rowtime")',
                f'{expr(order)}.alias("_order")',
                f'{expr(f"to_json(struct({identity}))" if identity else _NOTHING)}.alias("_identity")',
            ]
        if query.is_of_tables():
            keys = [
                "cast(" + self._key_in_tables(query, index) + " AS STRING)"
                for index in range(len(query.source.relation.key_columns()))
            ]
            text_of_key = f"concat_ws('|', {', '.join(keys)})"
            return [f'{expr(text_of_key)}.alias("_key")']
        key, time, order = (
            self._of_inputs(query, column) for column in ("_key", "_rowtime", "_order")
        )
        if query.partition:
            parts = [f"cast({text.write(part)} AS STRING)" for part in query.partition]
            key = parts[0] if len(parts) == 1 else f"concat_ws('|', {', '.join(parts)})"
        orders = [
            f"{name(one.alias)}._order" if query.joins else "_order" for one in query.inputs()
        ]
        if has_elements:
            orders.append("_position")
        if query.match is not None:
            orders.append("_first")
        if self.is_inner(query) and len(orders) > 1:
            # What reads these rows tells them apart by their order; a join's row comes with the last one of its parts.
            parts = [f"{one}.number" if one.endswith("_order") else one for one in orders]
            arrivals = [f"{one}.arrival" for one in orders if one.endswith("_order")]
            arrival = f"greatest({', '.join(arrivals)})" if len(arrivals) > 1 else arrivals[0]
            order = f"struct({arrival} AS arrival, concat_ws('|', {', '.join(parts)}) AS number)"
        aliased = ", ".join(f"{one} AS o{index}" for index, one in enumerate(orders))
        return [
            f'{expr(key)}.alias("_key")',
            f'{expr(time)}.alias("_rowtime")',
            f'{expr(order)}.alias("_order")',
            f'{expr(f"to_json(struct({aliased}))")}.alias("_identity")',
        ]

    def _of_inputs(self, query: QueryPlan, column: str) -> str:
        """Return a hidden column of the left row, or of the right one where an outer join has no left row."""
        if not query.joins:
            return column
        sides = [f"{name(one.alias)}.{column}" for one in query.inputs()]
        return (
            f"coalesce({', '.join(sides)})"
            if query.joins[0].kind in ("RIGHT", "FULL")
            else sides[0]
        )

    def _key_in_tables(self, query: QueryPlan, index: int) -> str:
        own = name(query.source.relation.key_columns()[index].name)
        if not query.joins:
            return own
        left = f"{name(query.source.alias)}.{own}"
        if query.joins[0].kind not in ("RIGHT", "FULL"):
            return left
        right = query.joins[0].right
        return f"coalesce({left}, {name(right.alias)}.{name(right.relation.key_columns()[0].name)})"

    # Joins.

    def _stream_join(self, query: QueryPlan, join: JoinPlan, text: SparkText) -> list[str]:
        left, right = name(query.source.alias), name(join.right.alias)
        # The rows of a join before have their watermark.
        is_chained = is_part(query.source.relation)
        delay = literal(interval(join.grace_ms))
        first = self._in_time(query, join, 0, "rows")
        rows = "rows" if is_chained else f'waiting({first}, {delay}, "left")'
        others = self._in_time(query, join, 1, f"{self._read(join.right)}(spark, arguments)")
        side = join.right.alias if is_chained else "right"
        before, after = join.before_ms, join.after_ms
        condition = (
            f"{text.write(join.left_key)} = {text.write(join.right_key)}"
            f" AND {right}._rowtime >= {left}._rowtime - INTERVAL '{before / 1000:.3f}' SECOND"
            f" AND {right}._rowtime <= {left}._rowtime + INTERVAL '{after / 1000:.3f}' SECOND"
        )
        kind = _JOIN_KINDS[join.kind]
        return [
            f"    rows = {rows}.alias({literal(query.source.alias)})",
            f"    other = waiting({others}, {delay}, {literal(side)})",
            f'    rows = rows.join(other.alias({literal(join.right.alias)}), {expr(condition)}, "{kind}")',
        ]

    def _in_time(self, query: QueryPlan, join: JoinPlan, side: int, rows: str) -> str:
        """Return what gives a side's rows to a join: those in time, if the late ones go to a stream of their own."""
        if not query.late:
            return rows
        owner = owner_of(query.name)
        parts = [one.name for one in self._script.queries if owner_of(one.name) == owner]
        alias = literal(query.inputs()[side].alias)
        # Each side of the parts before it has a number too.
        return (
            f"in_time(arguments, {rows}, {_late(query)}, {parts.index(query.name) + side}, {alias})"
        )

    def _object_join(self, query: QueryPlan, join: JoinPlan, text: SparkText) -> list[str]:
        on = expr(f"{text.write(join.left_key)} = {text.write(join.right_key)}")
        return [
            f"    rows = rows.alias({literal(query.source.alias)})",
            f"    other = {self._read(join.right)}(spark, arguments).alias({literal(join.right.alias)})",
            f'    rows = rows.join(other, {on}, "{_JOIN_KINDS[join.kind]}")',
        ]

    def _table_joins(self, query: QueryPlan, text: SparkText) -> list[str]:
        plain = SparkText(self._script.dialect, qualified=False)
        lines = ["    union = beside(", f"        {self._read(query.source)}(spark, arguments),"]
        is_by_time = any(join.right.relation.timestamp for join in query.joins)
        lines.append(f'        "{"_rowtime" if is_by_time else "_order.arrival"}",')
        for join in query.joins:
            read = f"{self._read(join.right)}(spark, arguments)"
            lines.append(f"        ({read}, {literal(plain.write(join.right_key))}),")
        lines += ["    )", "", "    def finish(rows):"]
        lines.append(f"        rows = latest_rows(rows, {literal(query.source.alias)},")
        for join in query.joins:
            key = literal(text.write(join.left_key))
            lines.append(f'            ({literal(join.right.alias)}, {key}, "{join.kind}"),')
        return [*lines, "        )"]
