"""CREATE FUNCTION: a function of a Python file as one of SQL's."""

from __future__ import annotations

import ast
from typing import Any

from headrace.sql.inference import Outside
from headrace.sql.statements import CreateFunction
from headrace.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    Function,
    OwnFunction,
    SqlError,
    SqlType,
    near,
)

_SCALARS = (BOOLEAN, INT, BIGINT, DOUBLE, STRING)
_MOST_PARAMETERS = 100


def own_function(statement: CreateFunction, outside: Outside) -> Function:
    """Return the function that a statement names; raises SqlError if its file has none that fits.

    The file is read, not run. A call that fails gives NULL, as ksqlDB's functions do; `outside` and jobs count it.
    """
    location = statement.location
    types = tuple(type_ for _, type_ in statement.parameters)
    for type_ in (*types, statement.result):
        if not _is_plain(type_):
            raise SqlError(
                f"a function takes and gives BOOLEAN, INT, BIGINT, DOUBLE, STRING, and ARRAYs and MAPs of these, "
                f"not {type_}: CAST",
                location,
            )
    if len(types) > _MOST_PARAMETERS:
        raise SqlError(f"a function has at most {_MOST_PARAMETERS} parameters", location)
    source = outside.file(statement.file, location)
    own = OwnFunction(statement.file, source, _python_name(statement, source), types)
    result = type_of(statement.result)
    name = statement.name.upper()
    arguments = ", ".join(f"{{{index}}}" for index in range(len(types)))
    return Function(
        name,
        "*" * len(types),
        statement.result,
        f"{spark_name(name)}({arguments})",
        lambda *values: outside.call(own, result, values),
        takes_null=True,
        own=own,
    )


def spark_name(name: str) -> str:
    """Return the name under which a job registers a function."""
    return f"own_{name.lower()}"


def type_of(type_: SqlType) -> list[Any]:
    """Return a type as `python_function.fit` reads it."""
    return [type_.name, *(type_of(one) for one in type_.of)]


def _is_plain(type_: SqlType) -> bool:
    if type_.name == "ARRAY":
        return _is_plain(type_.of[0])
    if type_.name == "MAP":
        return type_.of[0] == STRING and _is_plain(type_.of[1])
    return type_ in _SCALARS


def _python_name(statement: CreateFunction, source: str) -> str:
    """Return the function's name in its file, in any letter case; raises SqlError without one of so many parameters."""
    try:
        tree = ast.parse(source, statement.file)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SqlError(f"{statement.file} is no Python: {error}", statement.location) from None
    functions = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    name = next((one for one in functions if one.lower() == statement.name.lower()), None)
    if name is None:
        raise SqlError(
            f"{statement.file} has no function {statement.name.lower()}{near(statement.name, list(functions))}",
            statement.location,
        )
    parameters, count = functions[name].args, len(statement.parameters)
    positional = len(parameters.posonlyargs) + len(parameters.args)
    least = positional - len(parameters.defaults)
    is_enough = least <= count and (count <= positional or parameters.vararg is not None)
    if not is_enough or any(one is None for one in parameters.kw_defaults):
        raise SqlError(
            f"{name} in {statement.file}, line {functions[name].lineno}, does not take {count} arguments",
            statement.location,
        )
    return name
