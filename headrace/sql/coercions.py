"""One type for values that stand together, and which values are cast to which types, and how."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from headrace.sql.conversions import cast
from headrace.sql.statements import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    Lambda,
    Literal,
    Operation,
    Struct,
)
from headrace.sql.types import (
    BOOLEAN,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    Location,
    SqlError,
    SqlType,
    common,
)

Values = tuple[Expression, ...]


def one_type(values: Values, types: tuple[SqlType, ...]) -> tuple[Values, SqlType]:
    """Return values that stand together, and the type that they have in common.

    A constant text beside numbers, conditions or times is one of them if it reads as one, as in ksqlDB.
    """
    rest = {type_ for type_ in types if type_ not in (STRING, NULL)}
    if rest and STRING in types:
        pairs = [
            _as_other(value, type_, next(iter(rest))) if type_ == STRING else (value, type_)
            for value, type_ in zip(values, types, strict=True)
        ]
        values, types = tuple(one for one, _ in pairs), tuple(type_ for _, type_ in pairs)
    result = NULL
    for value, type_ in zip(values, types, strict=True):
        wider = common(result, type_)
        # A text is compared with a time, and is none.
        if wider is None or {STRING, wider} == {result, type_} != {STRING}:
            raise SqlError(f"{type_} does not go with {result}", value.location)
        result = wider
    return values, result


def _as_other(value: Expression, type_: SqlType, other: SqlType) -> tuple[Expression, SqlType]:
    """Return a constant text as the value of another type that it says; anything else as it is."""
    if not isinstance(value, Literal) or other.of:
        return value, type_
    if other == BOOLEAN and value.value.lower() in ("true", "false"):
        return Literal(value.value.lower() == "true", BOOLEAN, location=value.location), BOOLEAN
    try:
        if other.is_number:
            number = Decimal(value.value.strip())
            if not number.is_finite() or (other.is_integer and number != int(number)):
                return value, type_
            said = int(number) if other.is_integer else cast(value.value, other)
            return Literal(
                str(said) if other.name == "DECIMAL" else said, other, location=value.location
            ), other
        if other != BOOLEAN and cast(value.value, other) is not None:
            return Cast(value, other, location=value.location), other
    except (InvalidOperation, OverflowError, ValueError):
        pass
    return value, type_


def cast_struct(of: Expression, type_: SqlType, to: SqlType, location: Location) -> Expression:
    """Return a STRUCT as another one, by the names of its fields, where Spark goes by places."""
    names = [name.lower() for name in type_.fields]
    values: list[Expression] = []
    for name, field_type in zip(to.fields, to.of, strict=True):
        field: Expression = Literal(None, NULL)
        if name.lower() in names:
            field = Field(of, type_.fields[names.index(name.lower())], location=location)
        values.append(Cast(field, field_type, location=location))
    nothing = Cast(Literal(None, NULL), to, location=location)
    return _unless_null(of, Struct(to.fields, tuple(values), location=location), nothing)


def as_text(of: Expression, type_: SqlType, depth: int = 0) -> Expression:
    """Return a value as ksqlDB's text of it: [1, null], {key=1}, Struct{name=1}; Spark's texts are others."""
    if type_ == TIMESTAMP:
        pattern = Literal("yyyy-MM-dd'T'HH:mm:ss.SSS", STRING)
        return Call("FORMAT_TIMESTAMP", (of, pattern), location=of.location)
    if not type_.of:
        return Cast(of, STRING, location=of.location)
    nothing = Literal(None, STRING)
    if type_.name == "STRUCT":
        parts: list[Expression] = [Literal("Struct{", STRING)]
        for index, (name, field_type) in enumerate(zip(type_.fields, type_.of, strict=True)):
            field = as_text(Field(of, name, location=of.location), field_type, depth)
            parts += [Literal("," * bool(index) + f"{name}=", STRING), _or_null(field)]
        return _unless_null(of, _joined(*parts, Literal("}", STRING)), nothing)
    # The lambda functions of items within items have parameters of their own.
    one = Column(f"_t{depth}", location=of.location)
    if type_.name == "ARRAY":
        items, text = of, as_text(one, type_.of[0], depth + 1)
        ends = "[", "]"
    else:
        items = Call("ENTRIES", (of, Literal(False, BOOLEAN)), location=of.location)
        value = as_text(Field(one, "V", location=of.location), type_.of[1], depth + 1)
        key = Cast(Field(one, "K", location=of.location), STRING, location=of.location)
        text = _joined(key, Literal("=", STRING), _or_null(value))
        ends = "{", "}"
    texts = Call(
        "TRANSFORM", (items, Lambda((one.name,), text, location=of.location)), location=of.location
    )
    joined = Call("ARRAY_JOIN", (texts, Literal(", ", STRING)), location=of.location)
    return _joined(Literal(ends[0], STRING), joined, Literal(ends[1], STRING))


def _joined(*parts: Expression) -> Expression:
    return (
        Operation("||", parts[:2])
        if len(parts) == 2
        else Operation("||", (_joined(*parts[:-1]), parts[-1]))
    )


def _or_null(text: Expression) -> Expression:
    return Call("COALESCE", (text, Literal("null", STRING)), location=text.location)


def _unless_null(of: Expression, value: Expression, nothing: Expression) -> Expression:
    is_null = Operation("IS NULL", (of,), location=of.location)
    return Case(((is_null, nothing),), value, location=of.location)


def may_be_cast(type_: SqlType, to: SqlType, *, is_inner: bool = False) -> bool:
    """Return whether values are cast between two types, as ksqlDB casts: of what is made of others, only its like.

    A number is no time: what it counts, a function's name says. Within another value Spark casts, whose TIME is a text.
    """
    if is_inner and to == TIME and type_ not in (TIME, NULL):
        return False
    if (
        NULL in (type_, to)
        or (type_.name == to.name != "STRUCT" and not to.of)
        or to.name == "STRING"
    ):
        return True
    if not (type_.of or to.of):
        pair = {type_.name, to.name}
        of_times = pair == {"TIMESTAMP", "DATE"} or (type_, to) == (TIMESTAMP, TIME)
        has_numbers = all(one.is_number or one == BOOLEAN for one in (type_, to))
        return type_ == STRING or has_numbers or of_times
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
