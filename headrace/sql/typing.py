"""Finds what each name of an expression means, and each part's type; refuses what does not fit, with its location."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.sql.coercions import as_text, cast_struct, may_be_cast, one_type
from headrace.sql.conversions import cast, millis, read_time_of_day
from headrace.sql.functions import FUNCTIONS, NOT_BUILT, SLIDING_FUNCTIONS, find_function
from headrace.sql.functions_text import ENCODINGS
from headrace.sql.functions_times import CLOCK_UNITS, FIELDS, UNITS
from headrace.sql.plan import (
    ROWTIME,
    WINDOW_END,
    WINDOW_START,
    Scope,
    fits,
    resolve_column,
)
from headrace.sql.statements import (
    Array,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    Interval,
    Item,
    Lambda,
    Literal,
    Map,
    Operation,
    Over,
    Struct,
    Tick,
)
from headrace.sql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    Function,
    OwnFunction,
    SqlError,
    SqlType,
    array_of,
    common,
    map_of,
    near,
    widest,
)
from headrace.sql.values import (
    check_compared,
    check_constant,
    check_constants,
    check_escape,
    check_time_pattern,
)

_DIGITS = {"INT": (10, 0), "BIGINT": (19, 0)}
_LETTERS = {
    "S": "text", "I": "a whole number", "N": "a number", "B": "a condition", "T": "a TIMESTAMP", "X": "BYTES",
    "A": "an ARRAY", "M": "a MAP", "C": "an ARRAY or a MAP", "D": "a DATE", "O": "a TIME",
    "H": "text or a whole number", "Y": "text or BYTES", "L": "a lambda function, such as x => x + 1",
}  # fmt: skip
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"})
_TIMES = (ROWTIME, WINDOW_START, WINDOW_END)
_WORDS = {"U": UNITS, "E": frozenset(ENCODINGS), "F": FIELDS, "G": CLOCK_UNITS}
_WAYS_TO_TIMES = {
    TIMESTAMP: ": FROM_UNIXTIME takes milliseconds since 1970",
    DATE: ": FROM_DAYS takes days since 1970",
}
_WAYS_OF_TIMES = {
    TIMESTAMP: ": UNIX_TIMESTAMP gives milliseconds since 1970",
    DATE: ": UNIX_DATE gives days since 1970",
}


def resolve(  # noqa: C901 - one case for each kind of expression
    expression: Expression, scope: Scope
) -> tuple[Expression, SqlType]:
    """Return the expression with every column's relation and spelling, and its type; raises SqlError."""
    match expression:
        case Literal():
            return expression, expression.type
        case Interval():
            return expression, SqlType("INTERVAL")
        case Column():
            return resolve_column(expression, scope)
        case Field():
            return _field(expression, scope)
        case Item():
            return _item(expression, scope)
        case Operation():
            return _operation(expression, scope)
        case Call():
            return _call(expression, scope)
        case Cast():
            of, type_ = resolve(expression.of, scope)
            if not may_be_cast(type_, expression.type):
                way = _WAYS_OF_TIMES.get(type_) or _WAYS_TO_TIMES.get(expression.type, "")
                raise SqlError(
                    f"{type_} is not cast to {expression.type}{way}", expression.location
                )
            return _cast(expression, of, type_, scope), expression.type
        case Case():
            return _case(expression, scope)
        case Struct():
            values, types = _all(expression.values, scope)
            lower = [one.lower() for one in expression.names]
            twice = [one for one in expression.names if lower.count(one.lower()) > 1]
            if twice:
                raise SqlError(f"the field {twice[0]!r} is there twice", expression.location)
            return replace(expression, values=values), SqlType("STRUCT", types, expression.names)
        case Array():
            values, types = _all(expression.values, scope)
            values, item = one_type(values, types)
            if item == NULL:
                raise SqlError("an ARRAY has an item with a type: CAST a NULL", expression.location)
            return replace(expression, values=values), array_of(item)
        case Map():
            keys, key_types = _all(expression.keys, scope)
            values, types = _all(expression.values, scope)
            _check_map(expression, key_types, types)
            values, item = one_type(values, types)
            return replace(expression, keys=keys, values=values), map_of(STRING, item)
        case Over():
            return _over(expression, scope)
        case Tick():
            of, type_ = resolve(expression.of, scope)
            if type_ != TIMESTAMP:
                hint = ": ROWTIME is one with --dialect kinesis-analytics" * (scope.times == BIGINT)
                raise SqlError(f"a TIMESTAMP is rounded, not {type_}{hint}", expression.of.location)
            return replace(expression, of=of), TIMESTAMP
        case _:
            raise SqlError("a lambda function is an argument of a function", expression.location)


def _check_map(map_: Map, keys: tuple[SqlType, ...], values: tuple[SqlType, ...]) -> None:
    """Refuse a map that ksqlDB refuses: its keys are text, and one of its values has a type."""
    if not keys:
        raise SqlError("a MAP has a key and a value", map_.location)
    for key, type_ in zip(map_.keys, keys, strict=True):
        if type_ != STRING:
            raise SqlError(f"a MAP's keys are STRING, not {type_}: CAST", key.location)
    if all(type_ == NULL for type_ in values):
        raise SqlError("a MAP whose values are all NULL has no type: CAST one", map_.location)


def _cast(cast: Cast, of: Expression, type_: SqlType, scope: Scope) -> Expression:
    """Return a cast of a resolved value."""
    if cast.type == STRING and scope.times == BIGINT:
        return as_text(of, type_)
    fields = [[name.lower() for name in one.fields] for one in (type_, cast.type)]
    if cast.type.name == type_.name == "STRUCT" and fields[0] != fields[1]:
        return cast_struct(of, type_, cast.type, cast.location)
    return replace(cast, of=of)


def _over(over: Over, scope: Scope) -> tuple[Expression, SqlType]:
    call, type_ = resolve(over.call, scope)
    assert isinstance(call, Call)
    if call.name not in SLIDING_FUNCTIONS:
        names = ", ".join(sorted(SLIDING_FUNCTIONS))
        raise SqlError(f"{call.name} has no sliding window; there are {names}", over.location)
    partition, _ = _all(over.frame.partition, scope)
    return replace(over, call=call, frame=replace(over.frame, partition=partition)), type_


def condition(expression: Expression, scope: Scope, what: str) -> Expression:
    """Return a condition, resolved; raises SqlError if it is of another type."""
    resolved, type_ = resolve(expression, scope)
    if type_ not in (BOOLEAN, NULL):
        raise SqlError(f"{what} needs a condition, not {type_}", expression.location)
    return resolved


def _all(
    parts: tuple[Expression, ...], scope: Scope
) -> tuple[tuple[Expression, ...], tuple[SqlType, ...]]:
    pairs = [resolve(part, scope) for part in parts]
    return tuple(part for part, _ in pairs), tuple(type_ for _, type_ in pairs)


def _field(expression: Field, scope: Scope) -> tuple[Expression, SqlType]:
    of, type_ = resolve(expression.of, scope)
    if type_.name != "STRUCT":
        raise SqlError(f"-> reads a STRUCT's field, and this is {type_}", expression.of.location)
    field_type = type_.field(expression.name)
    if field_type is None:
        raise SqlError(
            f"no field {expression.name!r} in {type_}{near(expression.name, list(type_.fields))}",
            expression.location,
        )
    if isinstance(of, Struct):
        # The text made it here: Spark's words for a field are then the field's alone.
        return of.values[
            [one.lower() for one in of.names].index(expression.name.lower())
        ], field_type
    names = {name.lower(): name for name in type_.fields}
    return replace(expression, of=of, name=names[expression.name.lower()]), field_type


def _item(expression: Item, scope: Scope) -> tuple[Expression, SqlType]:
    of, type_ = resolve(expression.of, scope)
    index, index_type = resolve(expression.index, scope)
    if type_.name == "ARRAY" and index_type.is_integer:
        # Spark's place in an array is an INT.
        index = Cast(index, INT, location=index.location) if index_type == BIGINT else index
        return replace(expression, of=of, index=index), type_.of[0]
    if type_.name == "MAP" and common(type_.of[0], index_type) is not None:
        return replace(expression, of=of, index=index, is_of_map=True), type_.of[1]
    if type_.name in ("ARRAY", "MAP"):
        raise SqlError(f"{index_type} is no index of {type_}", expression.index.location)
    raise SqlError(f"[] reads an ARRAY or a MAP, and this is {type_}", expression.of.location)


def _read_times(
    operands: tuple[Expression, ...], types: tuple[SqlType, ...]
) -> tuple[tuple[Expression, ...], tuple[SqlType, ...]]:
    """Return operands with texts that stand beside a row's time as milliseconds, as KSQL reads them, in UTC.

    Beside a TIME they are read as one.
    """
    if TIME in types:
        pairs = [_as_clock(*one) for one in zip(operands, types, strict=True)]
        return tuple(one for one, _ in pairs), tuple(type_ for _, type_ in pairs)
    if not any(isinstance(one, Column) and one.name.upper() in _TIMES for one in operands):
        return operands, types
    if BIGINT not in types:
        return operands, types
    read: list[Expression] = []
    for one in operands:
        if isinstance(one, Literal) and one.type == STRING:
            try:
                time = cast(one.value, TIMESTAMP)
            except ValueError:
                raise SqlError(
                    f"{one.value!r} is no time, such as '2013-01-01T05:10:00'", one.location
                ) from None
            read.append(Literal(millis(time), BIGINT, location=one.location))
        else:
            read.append(one)
    return tuple(read), tuple(
        one.type if isinstance(one, Literal) else type_
        for one, type_ in zip(read, types, strict=True)
    )


def _as_clock(operand: Expression, type_: SqlType) -> tuple[Expression, SqlType]:
    """Return an operand that stands beside a TIME; a constant says one."""
    if type_ != STRING:
        return operand, type_
    if isinstance(operand, Literal):
        try:
            return replace(operand, value=read_time_of_day(operand.value)), TIME
        except ValueError as error:
            raise SqlError(f"{error}, such as '10:15:30'", operand.location) from None
    return Cast(operand, TIME, location=operand.location), TIME


def _operation(expression: Operation, scope: Scope) -> tuple[Expression, SqlType]:
    operands, types = _all(expression.operands, scope)
    resolved = replace(expression, operands=operands)
    operator = expression.operator
    if operator in ("AND", "OR", "NOT"):
        for operand, type_ in zip(operands, types, strict=False):
            if type_ not in (BOOLEAN, NULL):
                raise SqlError(f"{operator} needs conditions, not {type_}", operand.location)
        return resolved, BOOLEAN
    if operator == "IS NULL":
        return resolved, BOOLEAN
    if operator in _COMPARISONS or operator in ("BETWEEN", "IN"):
        operands, types = _read_times(operands, types)
        resolved = replace(expression, operands=operands)
        for operand, type_ in zip(operands, types, strict=True):
            if type_.of:
                raise SqlError(
                    f"{type_} is not compared: its items or fields are", operand.location
                )
            if common(types[0], type_) is None and {types[0], type_} != {DATE, TIMESTAMP}:
                raise SqlError(f"{types[0]} is not compared with {type_}", operand.location)
        return resolved, BOOLEAN
    if operator == "LIKE":
        for operand, type_ in zip(operands, types, strict=False):
            if type_ not in (STRING, NULL):
                raise SqlError(f"LIKE needs text, not {type_}", operand.location)
        if len(operands) > 2:
            check_escape(operands[1], operands[2])
        return resolved, BOOLEAN
    if operator == "||":
        return resolved, STRING
    return _arithmetic(resolved, types)


def _arithmetic(expression: Operation, types: tuple[SqlType, ...]) -> tuple[Expression, SqlType]:
    operator = expression.operator
    if operator == "+" and STRING in types and all(type_ in (STRING, NULL) for type_ in types):
        return replace(expression, operator="||"), STRING
    if (
        types[0] == TIMESTAMP
        and types[-1].name == "INTERVAL"
        and operator in "+-"
        and len(types) == 2
    ):
        return expression, TIMESTAMP
    for operand, type_ in zip(expression.operands, types, strict=False):
        if not type_.is_number and type_ != NULL:
            raise SqlError(f"{operator} needs numbers, not {type_}", operand.location)
    result = types[0]
    for type_ in types[1:]:
        result = common(result, type_) or DOUBLE
    if result.name == "DECIMAL" and operator in "*/%":
        # A DECIMAL's digits after these differ between engines: the result is a DOUBLE.
        operands = tuple(
            Cast(operand, DOUBLE, location=operand.location) for operand in expression.operands
        )
        return replace(expression, operands=operands), DOUBLE
    if result.name == "DECIMAL" and len(types) == 2:
        return expression, _sum_of_decimals(types)
    if operator == "/" and result.is_integer:
        return replace(expression, operator="DIV"), BIGINT
    return expression, result


def _sum_of_decimals(types: Sequence[SqlType]) -> SqlType:
    """Return the type that holds the sum of two numbers, one of them a DECIMAL, as in ksqlDB."""
    digits = [one.digits or _DIGITS.get(one.name, (1, 0)) for one in types]
    whole, scale = max(one[0] - one[1] for one in digits), max(one[1] for one in digits)
    return SqlType("DECIMAL", digits=(min(whole + scale + 1, 38), scale))


def _case(expression: Case, scope: Scope) -> tuple[Expression, SqlType]:
    tests = [condition(test, scope, "WHEN") for test, _ in expression.branches]
    # Each part once: what is in a CASE in a CASE would be resolved twice as often at each level.
    results, types = _all(tuple(value for _, value in expression.branches), scope)
    if expression.otherwise is not None:
        otherwise, type_ = resolve(expression.otherwise, scope)
        results, types = (*results, otherwise), (*types, type_)
    results, type_ = one_type(results, types)
    branches = tuple(zip(tests, results[: len(tests)], strict=True))
    otherwise = results[-1] if expression.otherwise is not None else None
    return replace(expression, branches=branches, otherwise=otherwise), type_


def _call(call: Call, scope: Scope) -> tuple[Expression, SqlType]:
    function = scope.functions.get(call.name) or _function(call, scope)
    if function.name == "COUNT" and not call.arguments and not call.star:
        # KSQL's COUNT() is COUNT(*).
        call = replace(call, star=True)
    least, most = function.bounds()
    count = 1 if call.star else len(call.arguments)
    if not least <= count <= most:
        range_ = (
            f"{least}"
            if least == most
            else f"{least} or more"
            if most > 9
            else f"{least} to {most:.0f}"
        )
        raise SqlError(
            f"{call.name} takes {range_} argument{'s' * (range_ != '1')}, not {count}",
            call.location,
        )
    if call.star:
        if function.name != "COUNT":
            raise SqlError(f"only COUNT takes *, not {call.name}", call.location)
        return replace(call, name=function.name), BIGINT
    if call.distinct:
        if function.name != "COUNT":
            raise SqlError(f"only COUNT takes DISTINCT, not {call.name}", call.location)
        function = FUNCTIONS["COUNT_DISTINCT"]
    arguments: list[Expression] = []
    types: list[SqlType] = []
    for index, argument in enumerate(call.arguments):
        if function.own is not None:
            resolved, type_ = _own_argument(function.own, index, argument, scope)
        else:
            resolved, type_ = _argument(function, index, argument, types, scope)
        arguments.append(resolved)
        types.append(type_)
    if function.result is widest:
        values, common_type = one_type(tuple(arguments), tuple(types))
        if STRING in types and common_type != STRING:
            arguments, types = [*values], [common_type] * len(types)
    if function.name == "TRANSFORM" and len(types) != 1 + len(types[0].of or (NULL,)):
        raise SqlError(
            "TRANSFORM takes a function of an array's elements, or two of a map's keys and values",
            call.location,
        )
    check_time_pattern(function, arguments)
    check_constants(function.name, arguments)
    check_compared(function, types, call.location)
    result = function.result_type(types)
    resolved = replace(
        call,
        name=function.name,
        arguments=tuple(arguments),
        distinct=False,
        own=function if function.own is not None else None,
    )
    return Cast(resolved, result, location=call.location) if function.name in (
        "ROUND",
        "TRUNC",
    ) else resolved, result


def _function(call: Call, scope: Scope) -> Function:
    function = find_function(call.name)
    if function is not None:
        return function
    if call.name in NOT_BUILT:
        reason = NOT_BUILT[call.name] or "headrace does not have it yet"
        raise SqlError(f"{call.name} is refused: {reason}", call.location)
    raise SqlError(
        f"no function {call.name}{near(call.name, sorted({*FUNCTIONS, *scope.functions}))}",
        call.location,
    )


def _argument(
    function: Function, index: int, argument: Expression, before: list[SqlType], scope: Scope
) -> tuple[Expression, SqlType]:
    letter = function.parameter(index)
    if letter == "L":
        return _lambda(function, argument, before, scope)
    if letter in _WORDS:
        return _word(argument, _WORDS[letter]), STRING
    if letter == "K":
        check_constant(function.name, index, argument)
    resolved, type_ = resolve(argument, scope)
    if not fits(letter, type_):
        raise SqlError(
            f"argument {index + 1} of {function.name} is {_LETTERS.get(letter, 'a value')}, not {type_}",
            argument.location,
        )
    return resolved, type_


def _own_argument(
    own: OwnFunction, index: int, argument: Expression, scope: Scope
) -> tuple[Expression, SqlType]:
    """Return an argument of a query's own function as the type that its parameter has."""
    resolved, type_ = resolve(argument, scope)
    declared = own.types[index]
    if common(declared, type_) != declared:
        raise SqlError(
            f"argument {index + 1} of {own.name} is {declared}, not {type_}", argument.location
        )
    if type_ == declared:
        return resolved, type_
    return Cast(resolved, declared, location=argument.location), declared


def _lambda(
    function: Function, argument: Expression, before: list[SqlType], scope: Scope
) -> tuple[Expression, SqlType]:
    """Return a lambda function, resolved; its type is its result's."""
    if not isinstance(argument, Lambda):
        raise SqlError(
            f"the last argument of {function.name} is {_LETTERS['L']}", argument.location
        )
    # Of an array its elements, of a map its keys and values.
    types = before[0].of or (NULL,)
    if function.name == "REDUCE":
        types = (before[1], *types)
    if len(types) != len(argument.parameters):
        raise SqlError(f"{function.name}'s function has {len(types)} parameters", argument.location)
    names = {name.lower(): type_ for name, type_ in zip(argument.parameters, types, strict=False)}
    body, type_ = resolve(argument.body, replace(scope, parameters={**scope.parameters, **names}))
    if function.name == "FILTER" and type_ != BOOLEAN:
        raise SqlError(f"FILTER's function is a condition, not {type_}", argument.body.location)
    if function.name == "REDUCE" and common(before[1], type_) is None:
        raise SqlError(
            f"REDUCE's function gives {type_}, and starts with {before[1]}", argument.body.location
        )
    return replace(argument, body=body), type_


def _word(argument: Expression, words: frozenset[str]) -> Literal:
    """Return a unit or an encoding, which may stand as a name or as a text."""
    value = argument.value if isinstance(argument, Literal) else None
    word = argument.name if isinstance(argument, Column) and argument.relation is None else value
    match = next((one for one in words if one.lower() == str(word).lower()), None)
    if match is None:
        raise SqlError(f"{word} is none of {', '.join(sorted(words))}", argument.location)
    return Literal(match, STRING, location=argument.location)
