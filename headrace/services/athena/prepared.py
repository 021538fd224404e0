"""Athena's prepared statements in SQL: PREPARE, EXECUTE ... USING and DEALLOCATE PREPARE.

Documented: https://docs.aws.amazon.com/athena/latest/ug/sql-prepare.html, sql-execute.html, sql-deallocate-prepare.html
(a name is unique in its workgroup); the refusals' sentences: assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_NAME = r'"?([A-Za-z_][A-Za-z0-9_@:]{0,255})"?'
_PREPARE = re.compile(rf"PREPARE\s+{_NAME}\s+FROM\s+(.+)", re.IGNORECASE | re.DOTALL)
_EXECUTE = re.compile(rf"EXECUTE\s+{_NAME}(?:\s+USING\s+(.+))?", re.IGNORECASE | re.DOTALL)
_DEALLOCATE = re.compile(rf"DEALLOCATE\s+PREPARE\s+{_NAME}", re.IGNORECASE)
_OPENING, _CLOSING = "([", ")]"


def run_prepared(
    backend: Any, group: str, text: str, parameters: Sequence[str]
) -> tuple[str, Sequence[str]]:
    """Return the statement that a text stands for, and its parameters; keep or drop what the text prepares.

    An unknown name stays as it is: the query then fails by it. Raises moto's error for a name that is prepared already.
    """
    from moto.athena.models import PreparedStatement
    from moto.core.exceptions import JsonRESTError

    plain, statements = text.strip().rstrip(";").rstrip(), backend.prepared_statements
    if found := _PREPARE.fullmatch(plain):
        if f"{group}|{found[1]}" in statements:
            raise JsonRESTError(
                "InvalidRequestException", f"PreparedStatement {found[1]} already exists."
            )
        statements[f"{group}|{found[1]}"] = PreparedStatement(found[1], group, found[2], None)
    elif found := _EXECUTE.fullmatch(plain):
        statement = statements.get(f"{group}|{found[1]}")
        if statement is not None:
            values = split_values(found[2]) if found[2] else parameters
            return str(statement.query_statement), values
    elif (found := _DEALLOCATE.fullmatch(plain)) and not statements.pop(
        f"{group}|{found[1]}", None
    ):
        raise JsonRESTError(
            "ResourceNotFoundException",
            f"PreparedStatement {found[1]} was not found in workGroup {group}",
        )
    return text, parameters


def split_values(text: str) -> list[str]:
    """Return the values of USING, each as its SQL text: commas in quotes and brackets divide nothing."""
    values, begin, depth, quote = list[str](), 0, 0, ""
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in _OPENING:
            depth += 1
        elif sign in _CLOSING:
            depth -= 1
        elif sign == "," and not depth:
            values.append(text[begin:at].strip())
            begin = at + 1
    return [*values, text[begin:].strip()]
