"""Says in words what a script's queries do: what they read and write, what they keep, and until when."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.sql.plan import JoinPlan, MatchPlan, QueryPlan, Script
from headrace.sql.spark_text import SparkText


def explain(script: Script) -> Iterator[str]:
    """Return the lines that explain every query of `script`."""
    for query in script.queries:
        yield from _query(query, script)
        yield ""


def duration(duration_ms: int) -> str:
    """Return a duration in words, such as 90 minutes."""
    for unit, size in (
        ("days", 86_400_000),
        ("hours", 3_600_000),
        ("minutes", 60_000),
        ("seconds", 1_000),
    ):
        if duration_ms and duration_ms % size == 0:
            count = duration_ms // size
            return f"{count} {unit if count != 1 else unit[:-1]}"
    return f"{duration_ms} milliseconds"


def _query(query: QueryPlan, script: Script) -> Iterator[str]:
    text = SparkText(script.dialect, qualified=bool(query.joins))
    yield f"{query.name} (line {query.location.line})"
    yield f"  reads    {', '.join(source.relation.name for source in query.inputs())}"
    yield from (f"  joins    {_join(join)}" for join in query.joins)
    if query.match is not None:
        yield f"  matches  {_match(query.match, script.dialect)}"
    if query.where is not None:
        yield f"  keeps    rows where {text.write(query.where)}"
    if query.is_aggregate:
        keys = ", ".join(key.name for key in query.keys) or "all rows together"
        yield f"  groups   by {keys}{_window(query)}"
    if query.having is not None:
        what = "rows" if query.sliding else "groups"
        condition = SparkText(script.dialect, qualified=False).write(query.having)
        yield f"  shows    {what} where {condition}"
    yield f"  writes   {_target(query)}"
    if query.late:
        yield f"  aside    each late row to the Kinesis stream {query.late}"
    if script.errors:
        yield f"  aside    each record that cannot be read to the Kinesis stream {script.errors}"
    yield f"  state    {_state(query)}"
    for warning in query.warnings:
        yield f"  warning  {warning}"


def _join(join: JoinPlan) -> str:
    kind = join.kind.lower()
    if join.method == "tables":
        return f"each row with the row of {join.right.relation.name} that has its key ({kind})"
    if join.method == "stream-table":
        return f"each row with its key's latest row of {join.right.relation.name} ({kind})"
    return (
        f"rows of {join.right.relation.name} from {duration(join.before_ms)} before to "
        f"{duration(join.after_ms)} after ({kind}); a row waits {duration(join.grace_ms)} longer"
    )


def _match(match: MatchPlan, dialect: str) -> str:
    text = SparkText(dialect, qualified=False)
    by = ", ".join(text.write(one.expression) for one in match.partition) or "all rows together"
    within = f", within {duration(match.within_ms)}" if match.within_ms else ""
    after = "past its end" if match.is_past_last else "with the row after its first one"
    if match.where is not None:
        within += f", where {text.write(match.where)}"
    return f"rows by {by}, in the order of their time{within}; the next match begins {after}"


def _window(query: QueryPlan) -> str:
    window = query.window
    if window is None:
        return ""
    if window.kind == "SESSION":
        return f", in sessions that end after {duration(window.size_ms)} without a row"
    if window.kind == "HOPPING":
        return (
            f", in windows of {duration(window.size_ms)}, one every {duration(window.advance_ms)}"
        )
    return f", in windows of {duration(window.size_ms)}"


def _target(query: QueryPlan) -> str:
    if query.target is None:
        return "to the terminal"
    sink = (
        f"{query.target.name}, the Kinesis stream {query.target.stream}"
        if query.target.stream
        else query.target.name
    )
    if query.is_of_tables():
        return f"each change of the result, and a record without data for a row that is gone, to {sink}"
    if not query.is_aggregate:
        return f"each row to {sink}"
    if query.corrects_sessions():
        return (
            f"each change of a session, and a record without data for one that is gone, to {sink}"
        )
    return f"each {'window once, when it is closed,' if query.emit == 'FINAL' else 'change of a group'} to {sink}"


def _state(query: QueryPlan) -> str:
    if query.is_of_tables():
        names = " and ".join(source.relation.name for source in query.inputs())
        return f"the latest row of every key of {names}"
    parts: list[str] = []
    for join in query.joins:
        if join.method == "stream-table":
            parts.append(f"the latest row of every key of {join.right.relation.name}")
        else:
            reach = max(join.before_ms, join.after_ms) + join.grace_ms
            parts.append(f"rows of both streams for {duration(reach)}")
    if query.is_aggregate and query.window is None:
        parts.append("a row for every key, for ever")
    if query.window is not None and query.corrects_sessions():
        reach = 2 * query.gap_ms() + query.window.grace_ms
        parts.append(
            f"the rows of each session, in files, until a row is {duration(reach)} past its last one; each micro-batch "
            "reads them all"
        )
    elif query.window is not None:
        parts.append(
            f"windows until a row is {duration(query.window.grace_ms)} past their end (the watermark)"
        )
    if query.match is not None:
        until = "their match is decided"
        if query.match.within_ms:
            until += f", at most {duration(query.match.within_ms)}"
        parts.append(f"rows until {until} (at most 10,000 of each partition)")
    if query.distinct:
        parts.append("every distinct row, for ever")
    return "; ".join(parts) or "none"
