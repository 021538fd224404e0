"""The names that an expression may use, and the types that fit a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.sql.errors import SqlError, near
from headrace.sql.expressions import Column, Expression
from headrace.sql.function import Function
from headrace.sql.functions import NOT_BUILT
from headrace.sql.plan import ARRIVAL, ROW_OFFSET, ROW_PARTITION, ROWTIME, Input
from headrace.sql.types import BIGINT, BOOLEAN, DATE, INT, NULL, STRING, TIMESTAMP, SqlType

_OF_RECORDS = {ROW_PARTITION: INT, ROW_OFFSET: STRING}


@dataclass(frozen=True)
class Scope:
    """The names that an expression may use.

    Attributes:
        inputs: the relations of FROM and JOIN.
        times: the type of ROWTIME: BIGINT in KSQL, TIMESTAMP in Kinesis Analytics.
        extras: names besides the relations' columns, such as WINDOWSTART, with their types.
        parameters: the parameters of the lambda functions around, with their types.
        functions: those that CREATE FUNCTION has made, by upper-case name.
    """

    inputs: tuple[Input, ...]
    times: SqlType = BIGINT
    extras: Mapping[str, SqlType] = field(default_factory=dict[str, SqlType])
    parameters: Mapping[str, SqlType] = field(default_factory=dict[str, SqlType])
    functions: Mapping[str, Function] = field(default_factory=dict[str, Function])


def resolve_column(column: Column, scope: Scope) -> tuple[Expression, SqlType]:
    """Return a column with its relation and spelling, and its type; raises SqlError for one that is not there."""
    name = column.name.lower()
    if column.relation is None:
        if name in scope.parameters:
            return column, scope.parameters[name]
        if column.name.upper() in scope.extras:
            upper = column.name.upper()
            return replace(column, name=upper), scope.extras[upper]
    inputs = _named(column, scope)
    matches = [
        (source, source.relation.column(name))
        for source in inputs
        if source.relation.column(name) is not None
    ]
    if len(matches) > 1:
        both = " and ".join(f"{source.alias}.{column.name}" for source, _ in matches)
        raise SqlError(f"{column.name!r} is both {both}: say which", column.place)
    if matches:
        source, known = matches[0]
        assert known is not None
        return replace(column, name=known.name, relation=source.alias), known.type
    if name.upper() == ROWTIME:
        return replace(column, name=ROWTIME, relation=inputs[0].alias), scope.times
    if name.upper() in _OF_RECORDS:
        return _of_record(column, inputs, scope)
    of_stream = [one for one in inputs if one.relation.stream and not one.relation.is_object]
    if name.upper() == ARRIVAL and scope.times == TIMESTAMP and [*inputs] == of_stream[:1]:
        return replace(column, name=ARRIVAL, relation=inputs[0].alias), TIMESTAMP
    if name == "rowkey":
        raise SqlError(
            "a row has no ROWKEY of its own: a relation's KEY column has its name, and a join's row has its first "
            "relation's key",
            column.place,
        )
    if column.relation is None and name.upper() in NOT_BUILT:
        raise SqlError(f"{name.upper()} is refused: {NOT_BUILT[name.upper()]}", column.place)
    names = [known.name for source in inputs for known in source.relation.columns] + list(
        scope.extras
    )
    where = inputs[0].relation.name if len(inputs) == 1 else "the query's relations"
    raise SqlError(f"no column {column.name!r} in {where}{near(name, names)}", column.place)


def _of_record(
    column: Column, inputs: tuple[Input, ...], scope: Scope
) -> tuple[Expression, SqlType]:
    """Return the shard's number or the sequence number of the record that a row was read from."""
    name = column.name.upper()
    source, *others = inputs
    if scope.times == TIMESTAMP:
        raise SqlError(f"{name} is KSQL's; an application's rows have ROWTIME alone", column.place)
    if others:
        raise SqlError(
            f"{name} is of each relation's records: say whose, such as {source.alias}.{name}",
            column.place,
        )
    if not source.relation.stream:
        raise SqlError(
            f"a match is of several records: MEASURES LAST(x.{name}) AS name gives one's {name}",
            column.place,
        )
    return replace(column, name=name, relation=source.alias), _OF_RECORDS[name]


def _named(column: Column, scope: Scope) -> tuple[Input, ...]:
    if column.relation is None:
        return scope.inputs
    inputs = tuple(one for one in scope.inputs if one.alias.lower() == column.relation.lower())
    if not inputs:
        aliases = [one.alias for one in scope.inputs]
        raise SqlError(
            f"no relation {column.relation!r} in this query{near(column.relation, aliases)}",
            column.place,
        )
    return inputs


def may_be_cast(type_: SqlType, to: SqlType, *, is_inner: bool = False) -> bool:
    """Return whether Spark casts between two types: of what is made of others, only its like."""
    if type_ == NULL or not (type_.of or to.of):
        return True
    if type_.of and to.name == "STRING":
        return True
    if type_.name == to.name == "STRUCT":
        # By their names at the top; what stands within an ARRAY or a MAP must be cast as it is.
        pairs = [(type_.field(name), of) for name, of in zip(to.fields, to.of, strict=True)]
        return all(
            field is None or may_be_cast(field, of, is_inner=True) for field, of in pairs
        ) and not (
            is_inner and [one.lower() for one in type_.fields] != [one.lower() for one in to.fields]
        )
    return (
        type_.name == to.name
        and len(type_.of) == len(to.of)
        and all(may_be_cast(*pair, is_inner=True) for pair in zip(type_.of, to.of, strict=True))
    )


def fits(letter: str, type_: SqlType) -> bool:
    """Return whether a value of a type may be an argument where a function's signature has `letter`."""
    if type_ == NULL or letter in "*K":
        return type_.name != "INTERVAL"
    return {
        "S": type_ == STRING,
        "I": type_.is_integer,
        "N": type_.is_number,
        "B": type_ == BOOLEAN,
        "T": type_ == TIMESTAMP,
        "X": type_.name == "BYTES",
        "A": type_.name == "ARRAY",
        "C": type_.name in ("ARRAY", "MAP"),
        "D": type_ == DATE,
        "M": type_.name == "MAP",
    }[letter]
