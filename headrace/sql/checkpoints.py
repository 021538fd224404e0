"""What a query's progress depends on: written beside its checkpoint, and compared before it goes on from there.

Spark gives a changed query the rows of its old state, or ends with an error of Java; a refusal says what was changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from headrace.sql.plan import JoinPlan, QueryPlan, Relation, Script
from headrace.sql.spark_text import SparkText
from headrace.sql.statements import Over


def progress_problem(
    name: str, folder: str, entries: Sequence[str], stored: str, state: dict[str, str]
) -> str:
    """Return why the query `name` cannot go on from its progress in `folder`; an empty text if it can, or has none.

    `entries` are the names in the folder, `stored` is its state.json (empty: it has none), `state` what the query
    depends on now. A compiled job has this function too, so that it runs in Python 3.9.
    """
    leave = f"give the query another name or another --checkpoint, or remove {folder} to read its streams again"
    kept = sorted({"rows", "table", "view", "intake"} & set(entries))
    if "checkpoint" in entries and not stored:
        return f"{name}: the checkpoint in {folder} is of another job, since state.json is not beside it: {leave}"
    if "checkpoint" not in entries and kept:
        return f"{name}: the checkpoint in {folder} is lost, but what came of it is there ({', '.join(kept)}): {leave}"
    if "checkpoint" not in entries:
        return ""
    if "late rows" in state and "late rows" in stored and "intake" not in entries:
        return f"{name}: the progress of reading in {folder}intake/ is lost, but the checkpoint is there: {leave}"
    try:
        before = dict(json.loads(stored))
    except (ValueError, TypeError):
        return f"{name}: {folder}state.json is not what this job writes: {leave}"
    parts = [one for one in {**state, **before} if before.get(one) != state.get(one)]
    changes = [f"{one} was {before.get(one, 'none')}, is {state.get(one, 'none')}" for one in parts]
    if not changes:
        return ""
    return f"{name} cannot go on from {folder}: {'; '.join(changes)}. Change it back, or {leave}"


def state_of(query: QueryPlan, script: Script) -> dict[str, str]:
    """Return by part, in words, what a query's progress depends on; what is not here may change.

    These are what it reads, and, if it keeps something, keys, aggregates, window, joins and the columns of a table.
    WHERE, HAVING, GRACE PERIOD and a stream's columns may change: rows from then on have the new ones.
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
