"""Reads the statements that sqlglot keeps as text, token by token: SHOW, DESCRIBE, and most of ALTER TABLE.

Source: docs.aws.amazon.com/athena/latest/ug/ddl-reference.html (documented).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

import sqlglot
from sqlglot.errors import TokenError

from headrace.services.athena.statements import CATALOG, Statement, StatementRefused


def parse_alter_words(words: Words, database: str) -> Statement:
    """Parse what Athena's ALTER TABLE does beside partitions and ADD COLUMNS. Raises StatementRefused."""
    if not words.skip("ALTER", "TABLE"):
        verb = words.peek()
        raise StatementRefused(f"NOT_SUPPORTED: headrace does not run {verb} in Athena")
    table = words.table(database)
    options: dict[str, Any] = {}
    if words.skip("DROP", "COLUMN"):
        action, options["column"] = "drop_column", words.take().lower()
    elif words.skip("CHANGE"):
        words.skip("COLUMN")
        action, options["column"] = "change_column", words.take().lower()
        options |= _read_column_change(words)
    elif words.skip("RENAME", "TO"):
        action, options["to"] = "rename_table", words.table(table[0])
    elif words.skip("SET", "TBLPROPERTIES", "("):
        action, options["properties"] = "set_properties", dict[str, str]()
        while not words.skip(")"):
            name = words.take()
            words.skip("=")
            options["properties"][name] = words.take()
            words.skip(",")
    elif words.skip("UNSET", "TBLPROPERTIES", "("):
        action, options["names"] = "unset_properties", list[str]()
        while not words.skip(")"):
            options["names"].append(words.take())
            words.skip(",")
    else:
        raise StatementRefused(
            "NOT_SUPPORTED: of ALTER TABLE headrace runs ADD and DROP PARTITION, ADD COLUMNS, DROP and CHANGE COLUMN, "
            "RENAME TO, SET and UNSET TBLPROPERTIES in Athena"
        )
    words.end()
    return Statement(action, "DDL", f"ALTER_{action.upper()}", table, options=options)


def _read_column_change(words: Words) -> dict[str, Any]:
    """Read what CHANGE COLUMN makes of a column: its name, type, comment and place."""
    column = {"Name": words.take().lower(), "Type": words.take().lower()}
    options: dict[str, Any] = {"to": column}
    while words.peek() and words.peek() not in ("COMMENT", "FIRST", "AFTER"):
        column["Type"] += words.take().lower()
    if words.skip("COMMENT"):
        column["Comment"] = words.take()
    options["is_first"] = words.skip("FIRST")
    options["after"] = words.take().lower() if words.skip("AFTER") else ""
    return options


class Words:
    """The tokens of a statement, read from the left."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            # With a word before it: sqlglot keeps what follows a command's word as one token.
            self.tokens = sqlglot.tokenize(f"x {text}", read="hive")[1:]
        except TokenError as error:
            raise StatementRefused(f"SYNTAX_ERROR: {error}") from error
        self.at = 0

    def peek(self) -> str:
        """Return the next word in upper case; empty at the end."""
        return self.tokens[self.at].text.upper() if self.at < len(self.tokens) else ""

    def take(self) -> str:
        """Read the next word. Raises StatementRefused at the end."""
        if self.at >= len(self.tokens):
            raise StatementRefused(f"line 1:{len(self.text) + 1}: mismatched input '<EOF>'")
        self.at += 1
        return str(self.tokens[self.at - 1].text)

    def skip(self, *words: str) -> bool:
        """Skip words if the text goes on with them."""
        ahead = [token.text.upper() for token in self.tokens[self.at : self.at + len(words)]]
        if ahead == list(words):
            self.at += len(words)
            return True
        return False

    def table(self, database: str) -> tuple[str, str]:
        """Read a table's name: its database and itself."""
        parts = [self.take()]
        while self.peek() == "." and len(parts) < 3:
            self.take()
            parts.append(self.take())
        if (len(parts) == 3 or not database) and len(parts) > 1 and parts[0].lower() != CATALOG:
            raise StatementRefused(f"CATALOG_NOT_FOUND: Catalog '{parts[0]}' not found")
        return ([database, *parts][-2]).lower(), parts[-1].lower()

    def rest(self) -> str:
        """Return the text that has not been read."""
        return self.text[self.tokens[self.at].start - 2 :] if self.at < len(self.tokens) else ""

    def end(self) -> None:
        """Refuse what follows. Raises StatementRefused."""
        if self.at < len(self.tokens):
            token = self.tokens[self.at]
            raise StatementRefused(
                f"line {token.line}:{token.col}: mismatched input '{token.text}'"
            )


def parse_show(words: Words, database: str) -> Statement:
    """Parse what follows SHOW. Raises StatementRefused."""
    what = words.take().upper()
    options: dict[str, Any] = {}
    if what in ("DATABASES", "SCHEMAS"):
        words.skip("LIKE")
        options["pattern"] = words.take() if words.peek() else ""
        words.end()
        return Statement("show_databases", "UTILITY", "SHOW_DATABASES", options=options)
    if what in ("TABLES", "VIEWS"):
        if words.skip("IN") or words.skip("FROM"):
            # A database's name, alone or behind the catalogue's, is read as a table's.
            database = words.table("")[1]
        words.skip("LIKE")
        options["pattern"] = words.take() if words.peek() else ""
        words.end()
        return Statement(
            f"show_{what.lower()}", "UTILITY", f"SHOW_{what}", (database, ""), options=options
        )
    if what == "CREATE":
        kind = words.take().upper()
        table = words.table(database)
        words.end()
        return Statement(
            "show_create", "UTILITY", f"SHOW_CREATE_{kind}", table, options={"kind": kind}
        )
    if what == "PARTITIONS":
        table = words.table(database)
        words.end()
        return Statement("show_partitions", "UTILITY", "SHOW_PARTITIONS", table)
    if what == "TBLPROPERTIES":
        table = words.table(database)
        options["property"] = words.take() if words.skip("(") else ""
        if options["property"] and not words.skip(")"):
            raise StatementRefused("FAILED: ParseException: SHOW TBLPROPERTIES names one property")
        words.end()
        return Statement(
            "show_properties", "UTILITY", "SHOW_TABLE_PROPERTIES", table, options=options
        )
    if what == "COLUMNS" and (words.skip("IN") or words.skip("FROM")):
        table = words.table(database)
        if words.skip("IN") or words.skip("FROM"):
            table = words.take().lower(), table[1]
        words.end()
        return Statement("show_columns", "UTILITY", "SHOW_COLUMNS", table)
    raise StatementRefused(f"NOT_SUPPORTED: headrace does not run SHOW {what} in Athena")


def parse_describe(words: Words, database: str) -> Statement:
    """Parse what follows DESCRIBE. Raises StatementRefused."""
    style = words.take().upper() if words.peek() in ("EXTENDED", "FORMATTED") else ""
    table = words.table(database)
    if words.skip("PARTITION", "("):  # which has its table's columns
        while words.take() != ")":
            pass
    column = words.take().lower() if words.peek() else ""
    words.end()
    return Statement(
        "describe", "UTILITY", "DESCRIBE_TABLE", table, options={"style": style, "column": column}
    )


def find_added_partitions(words: Words, database: str) -> Statement | None:
    """Parse `ALTER TABLE name ADD [IF NOT EXISTS] PARTITION ...`; None for another statement."""
    if not words.skip("ALTER", "TABLE"):
        return None
    table = words.table(database)
    if not words.skip("ADD") or words.peek() not in ("IF", "PARTITION"):
        return None
    if_not_exists = words.skip("IF", "NOT", "EXISTS")
    partitions: list[dict[str, Any]] = []
    while words.skip("PARTITION", "("):
        values: dict[str, str] = {}
        while not words.skip(")"):
            key = words.take().lower()
            if not words.skip("="):
                raise StatementRefused(
                    "FAILED: ParseException: a partition is named by key = value"
                )
            sign = words.take() if words.peek() == "-" else ""
            values[key] = sign + words.take()
            words.skip(",")
        location = words.take() if words.skip("LOCATION") else ""
        partitions.append({"values": values, "location": location})
    words.end()
    if not partitions:
        raise StatementRefused(
            "FAILED: ParseException: ADD needs PARTITION (key = value, ...) or COLUMNS (...)"
        )
    return Statement(
        "add_partitions", "DDL", "ALTER_TABLE_ADD_PARTITION", table,
        options={"partitions": partitions, "if_not_exists": if_not_exists},
    )  # fmt: skip
