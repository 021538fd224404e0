"""Translates Redshift's CREATE TABLE to PostgreSQL's: types, columns, table attributes."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.ports.warehouses import WarehouseError
from headrace.services.redshift.clusters.sql import (
    Token,
    drop_spaces,
    find_close,
    join_tokens,
    tokens_of,
)

_LARGEST = 65535
# Words that end a column's default value.
_ATTRIBUTES = frozenset(
    {"encode", "distkey", "sortkey", "not", "null", "primary", "unique", "references", "identity",
     "generated", "default", "collate", "constraint"}
)  # fmt: skip
_TEXTS = {
    "varchar": 256,
    "nvarchar": 256,
    "text": 256,
    "char": 1,
    "nchar": 1,
    "bpchar": 256,
    "character": 1,
}
_FIXED = frozenset({"char", "nchar", "bpchar", "character"})
_NOT_HERE = frozenset({"geometry", "geography", "hllsketch"})
_CONSTRAINTS = frozenset({"primary", "unique", "foreign", "constraint"})


def refuse(what: str) -> WarehouseError:
    """Return the error for a feature of Redshift that headrace does not have."""
    return WarehouseError(
        "SyntaxError", f"ERROR: headrace does not support {what} in Redshift's SQL yet."
    )


def create_table(tokens: list[Token]) -> list[Token]:
    """Return CREATE TABLE without Redshift's own attributes. Raises WarehouseError."""
    found = drop_spaces(tokens)
    words = [token.value for token in found]
    head = words.index("table") + 1
    if words[head : head + 3] == ["if", "not", "exists"]:
        head += 3
    at = head
    while at < len(found) and found[at].value not in ("(", "as") and not _is_attribute(found[at]):
        at += 1
    name = found[head:at]
    columns = ""
    if at < len(found) and found[at].value == "(":
        end = find_close(found, at)
        columns = f" ({_columns(found[at + 1 : end])})"
        at = end + 1
    if name and name[0].value.startswith("#"):
        raise refuse("names that begin with #; CREATE TEMPORARY TABLE makes such a table")
    rest = _without_attributes(found[at:])
    beginning = _join_spaced(found[:head])
    return tokens_of(f"{beginning} {join_tokens(name)}{columns}{rest}")


def _is_attribute(token: Token) -> bool:
    return token.kind == "word" and token.value in (
        "backup", "diststyle", "distkey", "sortkey", "compound", "interleaved", "encode",
    )  # fmt: skip


def _without_attributes(found: Sequence[Token]) -> str:
    """Return the tokens after the columns without distribution, sorting, encoding and backup."""
    at = 0
    while at < len(found):
        value = found[at].value
        if value in ("backup", "diststyle", "encode"):
            at += 2
        elif value in ("compound", "interleaved"):
            at += 1
        elif value in ("distkey", "sortkey"):
            at += 1
            if at < len(found) and found[at].value == "auto":
                at += 1
            elif at < len(found) and found[at].value == "(":
                at = find_close(found, at) + 1
        else:
            break
    rest = found[at:]
    return f" {_join_spaced(rest)}" if rest else ""


def _columns(found: Sequence[Token]) -> str:
    parts = _split(found)
    keys: set[str] = set()
    for part in parts:
        words = [token.value for token in part]
        if part and part[0].kind == "word" and words[0] in _CONSTRAINTS and "primary" in words:
            keys |= {t.value for t in part[words.index("primary") :] if t.kind in ("word", "name")}
    made = [_column(part, keys) for part in parts]
    return ", ".join(text for text in made if text)


def _column(part: Sequence[Token], keys: set[str]) -> str:
    if not part:
        return ""
    if part[0].kind == "word" and part[0].value in _CONSTRAINTS:
        return ""
    if len(part) < 2 or part[0].value == "like":
        return _join_spaced(
            [t for t in part if t.value not in ("including", "excluding", "defaults")]
        ) + (" including defaults" if any(t.value == "including" for t in part) else "")
    taken, kind = type_of(part[1:], is_column=True)
    attributes = _attributes(part[1 + taken :])
    if part[0].value in keys and "not null" not in attributes:
        attributes += " not null"
    return f"{part[0].raw} {kind}{attributes}"


def _attributes(found: Sequence[Token]) -> str:
    text, at = "", 0
    while at < len(found):
        value = found[at].value
        if value == "encode":
            at += 2
        elif value in ("distkey", "sortkey", "unique"):
            at += 1
        elif value == "primary":
            text, at = f"{text} not null", at + 2
        elif value == "references":
            at += 2
            while at < len(found) and found[at].value == ".":
                at += 2
            at = find_close(found, at) + 1 if at < len(found) and found[at].value == "(" else at
        elif value == "collate":
            if found[at + 1 : at + 2] and found[at + 1].value == "case_insensitive":
                raise refuse("COLLATE CASE_INSENSITIVE")
            at += 2
        elif value == "identity":
            how, at = _identity(found, at)
            text += f" generated always as identity{how}"
        elif value == "generated":
            how, at = _identity(found, at + 4)
            text += f" generated by default as identity{how}"
        elif value == "default":
            end = at + 1
            depth = 0
            while end < len(found) and (
                depth or found[end].value not in _ATTRIBUTES or end == at + 1
            ):
                depth += (found[end].value == "(") - (found[end].value == ")")
                end += 1
            text, at = f"{text} {_join_spaced(found[at:end])}", end
        else:
            text, at = f"{text} {found[at].raw.lower()}", at + 1
    return text


def _identity(found: Sequence[Token], at: int) -> tuple[str, int]:
    """Return the options of IDENTITY(seed, step) at `at`, and the place after it."""
    if at + 1 >= len(found) or found[at + 1].value != "(":
        return "", at + 1
    end = find_close(found, at + 1)
    numbers = "".join(token.raw for token in found[at + 2 : end]).split(",")
    if len(numbers) != 2 or not all(n.lstrip("-").isdigit() for n in numbers):
        raise WarehouseError("SyntaxError", 'ERROR: syntax error at or near "IDENTITY"')
    return (
        f" (minvalue {min(int(numbers[0]), 1)} start {numbers[0]} increment {numbers[1]})",
        end + 1,
    )


def type_of(found: Sequence[Token], *, is_column: bool) -> tuple[int, str]:
    """Return a type's number of tokens, and PostgreSQL's type. Raises WarehouseError."""
    name, taken = found[0].value, 1
    if name in _NOT_HERE:
        raise refuse(f"the type {name.upper()}")
    if name == "super":
        return 1, "jsonb"
    following = [token.value for token in found[1:3]]
    if name in ("char", "character", "binary") and following[:1] == ["varying"]:
        name, taken = "varbyte" if name == "binary" else "varchar", 2
    if name in ("varbyte", "varbinary"):
        return _with_length(found, taken)[0], "bytea"
    if name == "datetime":
        return 1, "timestamp"
    if name not in _TEXTS:
        return _other_type(found)
    taken, length = _with_length(found, taken)
    if not is_column and not length:
        return taken, "char" if name in _FIXED else "varchar"
    length = length or str(_TEXTS[name])
    if length == "max":
        length = str(_LARGEST)
    return taken, f"{'char' if name in _FIXED else 'varchar'}({length})"


def _with_length(found: Sequence[Token], taken: int) -> tuple[int, str]:
    if [token.value for token in found[taken : taken + 1]] != ["("]:
        return taken, ""
    end = find_close(found, taken)
    return end + 1, "".join(token.value for token in found[taken + 1 : end])


def _other_type(found: Sequence[Token]) -> tuple[int, str]:
    taken = 1
    if [token.value for token in found[:2]] == ["double", "precision"]:
        return 2, "double precision"
    text = found[0].raw
    if taken < len(found) and found[taken].value == "(":
        end = find_close(found, taken)
        text += "".join(token.raw for token in found[taken : end + 1])
        taken = end + 1
    if [token.value for token in found[taken + 1 : taken + 3]] == ["time", "zone"]:
        text, taken = f"{text} {_join_spaced(found[taken : taken + 3])}", taken + 3
    return taken, text


def _split(found: Sequence[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in found:
        if token.kind == "sign":
            depth += (token.value == "(") - (token.value == ")")
        if token.kind == "sign" and token.value == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _join_spaced(found: Sequence[Token]) -> str:
    text = ""
    for token in found:
        tight = token.raw in ".(),:" or text[-1:] in ".(:"
        text += token.raw if tight or not text else f" {token.raw}"
    return text
