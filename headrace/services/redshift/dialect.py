"""Translates Redshift's SQL to PostgreSQL's: drops storage attributes, and refuses unsupported statements by name.

Distribution and sort keys, encodings and backups do not change query results. Primary, unique and foreign keys
are not enforced, as in Redshift (docs.aws.amazon.com/redshift/latest/dg/t_Defining_constraints.html), but a primary
key's columns are NOT NULL. Names are folded to lower case, in double quotes too.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.ports.warehouses import WarehouseError
from headrace.services.redshift.copy_command import (
    Token,
    drop_spaces,
    find_close,
    join_tokens,
    tokens_of,
)

# Translates Redshift's CREATE TABLE to PostgreSQL's: types, columns, table attributes.

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
_NOT_IN_REDSHIFT = frozenset({"geometry", "geography", "hllsketch"})
_CONSTRAINTS = frozenset({"primary", "unique", "foreign", "constraint"})


def refuse(what: str) -> WarehouseError:
    """Return the error for a feature of Redshift that headrace does not have."""
    return WarehouseError(
        "SyntaxError", f"ERROR: headrace does not support {what} in Redshift's SQL yet."
    )


def create_table(tokens: list[Token]) -> list[Token]:
    """Return CREATE TABLE without Redshift's own attributes. Raises WarehouseError."""
    words_only = drop_spaces(tokens)
    words = [token.value for token in words_only]
    head = words.index("table") + 1
    if words[head : head + 3] == ["if", "not", "exists"]:
        head += 3
    at = head
    while (
        at < len(words_only)
        and words_only[at].value not in ("(", "as")
        and not _is_attribute(words_only[at])
    ):
        at += 1
    name = words_only[head:at]
    columns = ""
    if at < len(words_only) and words_only[at].value == "(":
        end = find_close(words_only, at)
        columns = f" ({_columns(words_only[at + 1 : end])})"
        at = end + 1
    if name and name[0].value.startswith("#"):
        raise refuse("names that begin with #; CREATE TEMPORARY TABLE makes such a table")
    rest = _without_attributes(words_only[at:])
    beginning = _join_words(words_only[:head])
    return tokens_of(f"{beginning} {join_tokens(name)}{columns}{rest}")


def _is_attribute(token: Token) -> bool:
    return token.kind == "word" and token.value in (
        "backup", "diststyle", "distkey", "sortkey", "compound", "interleaved", "encode",
    )  # fmt: skip


def _without_attributes(tokens: Sequence[Token]) -> str:
    """Return the tokens after the columns without distribution, sorting, encoding and backup."""
    at = 0
    while at < len(tokens):
        value = tokens[at].value
        if value in ("backup", "diststyle", "encode"):
            at += 2
        elif value in ("compound", "interleaved"):
            at += 1
        elif value in ("distkey", "sortkey"):
            at += 1
            if at < len(tokens) and tokens[at].value == "auto":
                at += 1
            elif at < len(tokens) and tokens[at].value == "(":
                at = find_close(tokens, at) + 1
        else:
            break
    rest = tokens[at:]
    return f" {_join_words(rest)}" if rest else ""


def _columns(tokens: Sequence[Token]) -> str:
    parts = _split(tokens)
    keys: set[str] = set()
    for part in parts:
        words = [token.value for token in part]
        if part and part[0].kind == "word" and words[0] in _CONSTRAINTS and "primary" in words:
            keys |= {t.value for t in part[words.index("primary") :] if t.kind in ("word", "name")}
    columns = [_column(part, keys) for part in parts]
    return ", ".join(text for text in columns if text)


def _column(part: Sequence[Token], keys: set[str]) -> str:
    if not part:
        return ""
    if part[0].kind == "word" and part[0].value in _CONSTRAINTS:
        return ""
    if len(part) < 2 or part[0].value == "like":
        return _join_words(
            [t for t in part if t.value not in ("including", "excluding", "defaults")]
        ) + (" including defaults" if any(t.value == "including" for t in part) else "")
    taken, kind = type_of(part[1:], is_column=True)
    attributes = _attributes(part[1 + taken :])
    if part[0].value in keys and "not null" not in attributes:
        attributes += " not null"
    return f"{part[0].raw} {kind}{attributes}"


def _attributes(tokens: Sequence[Token]) -> str:
    text, at = "", 0
    while at < len(tokens):
        value = tokens[at].value
        if value == "encode":
            at += 2
        elif value in ("distkey", "sortkey", "unique"):
            at += 1
        elif value == "primary":
            text, at = f"{text} not null", at + 2
        elif value == "references":
            at += 2
            while at < len(tokens) and tokens[at].value == ".":
                at += 2
            at = find_close(tokens, at) + 1 if at < len(tokens) and tokens[at].value == "(" else at
        elif value == "collate":
            if tokens[at + 1 : at + 2] and tokens[at + 1].value == "case_insensitive":
                raise refuse("COLLATE CASE_INSENSITIVE")
            at += 2
        elif value == "identity":
            how, at = _identity(tokens, at)
            text += f" generated always as identity{how}"
        elif value == "generated":
            how, at = _identity(tokens, at + 4)
            text += f" generated by default as identity{how}"
        elif value == "default":
            end = at + 1
            depth = 0
            while end < len(tokens) and (
                depth or tokens[end].value not in _ATTRIBUTES or end == at + 1
            ):
                depth += (tokens[end].value == "(") - (tokens[end].value == ")")
                end += 1
            text, at = f"{text} {_join_words(tokens[at:end])}", end
        else:
            text, at = f"{text} {tokens[at].raw.lower()}", at + 1
    return text


def _identity(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    """Return the options of IDENTITY(seed, step) at `at`, and the place after it."""
    if at + 1 >= len(tokens) or tokens[at + 1].value != "(":
        return "", at + 1
    end = find_close(tokens, at + 1)
    numbers = "".join(token.raw for token in tokens[at + 2 : end]).split(",")
    if len(numbers) != 2 or not all(n.lstrip("-").isdigit() for n in numbers):
        raise WarehouseError("SyntaxError", 'ERROR: syntax error at or near "IDENTITY"')
    return (
        f" (minvalue {min(int(numbers[0]), 1)} start {numbers[0]} increment {numbers[1]})",
        end + 1,
    )


def type_of(tokens: Sequence[Token], *, is_column: bool) -> tuple[int, str]:
    """Return a type's number of tokens, and PostgreSQL's type. Raises WarehouseError."""
    name, taken = tokens[0].value, 1
    if name in _NOT_IN_REDSHIFT:
        raise refuse(f"the type {name.upper()}")
    if name == "super":
        return 1, "jsonb"
    following = [token.value for token in tokens[1:3]]
    if name in ("char", "character", "binary") and following[:1] == ["varying"]:
        name, taken = "varbyte" if name == "binary" else "varchar", 2
    if name in ("varbyte", "varbinary"):
        return _with_length(tokens, taken)[0], "bytea"
    if name == "datetime":
        return 1, "timestamp"
    if name not in _TEXTS:
        return _other_type(tokens)
    taken, length = _with_length(tokens, taken)
    if not is_column and not length:
        return taken, "char" if name in _FIXED else "varchar"
    length = length or str(_TEXTS[name])
    if length == "max":
        length = str(_LARGEST)
    return taken, f"{'char' if name in _FIXED else 'varchar'}({length})"


def _with_length(tokens: Sequence[Token], taken: int) -> tuple[int, str]:
    if [token.value for token in tokens[taken : taken + 1]] != ["("]:
        return taken, ""
    end = find_close(tokens, taken)
    return end + 1, "".join(token.value for token in tokens[taken + 1 : end])


def _other_type(tokens: Sequence[Token]) -> tuple[int, str]:
    taken = 1
    if [token.value for token in tokens[:2]] == ["double", "precision"]:
        return 2, "double precision"
    text = tokens[0].raw
    if taken < len(tokens) and tokens[taken].value == "(":
        end = find_close(tokens, taken)
        text += "".join(token.raw for token in tokens[taken : end + 1])
        taken = end + 1
    if [token.value for token in tokens[taken + 1 : taken + 3]] == ["time", "zone"]:
        text, taken = f"{text} {_join_words(tokens[taken : taken + 3])}", taken + 3
    return taken, text


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if token.kind == "sign":
            depth += (token.value == "(") - (token.value == ")")
        if token.kind == "sign" and token.value == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _join_words(tokens: Sequence[Token]) -> str:
    text = ""
    for token in tokens:
        tight = token.raw in ".(),:" or text[-1:] in ".(:"
        text += token.raw if tight or not text else f" {token.raw}"
    return text


# Unsupported statements, by their first words.
_NOT_HERE = (
    "unload",
    "create external",
    "create datashare",
    "create model",
    "create library",
    "create function",
    "create or replace function",
    "create procedure",
    "create or replace procedure",
    "create materialized",
    "refresh materialized",
    "alter datashare",
    "alter materialized",
    "analyze compression",
    "copy job",
    "attach",
    "show",
    "call",
)
# Statements that do not change query results.
_WITHOUT_EFFECT = (
    "vacuum",
    "analyze",
    "set enable_",
    "set query_group",
    "set wlm_",
    "set statement_timeout",
)
_PARTS_FIRST = ("dateadd", "datediff", "date_part", "dateadd_", "date_diff", "date_add")
_RENAMED = {"nvl": "coalesce", "listagg": "string_agg"}


def translate(sql: str) -> str:
    """Translate one statement to PostgreSQL's SQL; empty when there is nothing to do. Raises WarehouseError."""
    tokens = _fold(tokens_of(sql))
    words = [token.value for token in drop_spaces(tokens) if token.kind == "word"][:4]
    start = " ".join(words)
    for name in _NOT_HERE:
        if start == name or start.startswith(f"{name} "):
            raise refuse(name.upper())
    if any(start.startswith(name) for name in _WITHOUT_EFFECT):
        return ""
    if words[:1] == ["create"] and "table" in words[1:4]:
        tokens = create_table(tokens)
    elif words[:2] == ["alter", "table"]:
        altered = _alter_table(tokens)
        if altered is None:
            return ""
        tokens = altered
    return join_tokens(_functions(_listagg(_top(_casts(tokens)))))


def _fold(tokens: Sequence[Token]) -> list[Token]:
    return [
        Token("name", token.raw.lower(), token.value.lower()) if token.kind == "name" else token
        for token in tokens
    ]


def _alter_table(tokens: list[Token]) -> list[Token] | None:
    """Translate ALTER TABLE; return None when it does not change query results."""
    words_only = drop_spaces(tokens)
    words = [token.value for token in words_only]
    if "append" in words[2:]:
        raise refuse("ALTER TABLE APPEND")
    for name in ("distkey", "diststyle", "sortkey", "encode"):
        if name in words[2:] and "add" not in words[2:]:
            return None
    if "add" not in words:
        return tokens
    at = words.index("add")
    if words[at + 1 : at + 2] and words[at + 1] in ("constraint", "primary", "unique", "foreign"):
        return None
    if words[at + 1 : at + 2] == ["column"]:
        at += 1
    if at + 2 >= len(words_only):
        return tokens
    table = create_table(tokens_of(f"create table t ({_join_spaced(words_only[at + 1 :])})"))
    body = drop_spaces(table)
    inner = body[4:-1]
    return tokens_of(f"{_join_spaced(words_only[: at + 1])} {_join_spaced(inner)}")


def _join_spaced(tokens: Sequence[Token]) -> str:
    return " ".join(token.raw for token in tokens).replace(": :", "::")


def _casts(tokens: list[Token]) -> list[Token]:
    """Translate the types after `::`."""
    cast_tokens: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        cast_tokens.append(token)
        at += 1
        is_cast = token.value == ":" and len(cast_tokens) > 1 and cast_tokens[-2].value == ":"
        if is_cast and at < len(tokens) and tokens[at].kind == "word":
            rest = tokens[at:]
            taken, text = type_of(rest, is_column=False)
            cast_tokens += tokens_of(text)
            at += taken
    return cast_tokens


def _top(tokens: list[Token]) -> list[Token]:
    """Turn `select top n` into `limit n`."""
    words_only = drop_spaces(tokens)
    if [t.value for t in words_only[:2]] != ["select", "top"] or len(words_only) < 3:
        return tokens
    count = words_only[2]
    skipped = {id(words_only[1]), id(count)}
    kept = [token for token in tokens if id(token) not in skipped]
    return [*kept, *tokens_of(f" limit {count.raw}")]


def _functions(tokens: list[Token]) -> list[Token]:
    """Rename functions, and quote date parts that are first arguments."""
    replaced: list[Token] = []
    for at, token in enumerate(tokens):
        if token.kind != "word":
            replaced.append(token)
            continue
        after = drop_spaces(tokens[at + 1 : at + 6])
        is_call = bool(after) and after[0].value == "("
        if token.value == "sysdate" and not is_call:
            replaced += tokens_of("headrace.sysdate()")
        elif is_call and token.value in _RENAMED:
            replaced.append(Token("word", _RENAMED[token.value], _RENAMED[token.value]))
        elif _is_part(replaced) and after and after[0].value == ",":
            replaced.append(Token("text", f"'{token.value}'", token.value))
        else:
            replaced.append(token)
    return replaced


def _is_part(before: Sequence[Token]) -> bool:
    last = drop_spaces(before[-5:])[-2:]
    return len(last) == 2 and last[1].value == "(" and last[0].value in _PARTS_FIRST


def _listagg(tokens: list[Token]) -> list[Token]:
    """Turn `listagg(a, b) within group (order by c)` into `string_agg(a::text, b order by c)`."""
    at = next((n for n, t in enumerate(tokens) if t.kind == "word" and t.value == "listagg"), None)
    if at is None:
        return tokens
    first = find_close(tokens, at)
    arguments = _arguments(tokens, at, first)
    if arguments[:1] == ["*"] or not 1 <= len(arguments) <= 2:
        raise WarehouseError("SyntaxError", 'ERROR: syntax error at or near "LISTAGG"')
    distinct = arguments[0].strip().lower().startswith("distinct ")
    value = arguments[0].strip()[9:] if distinct else arguments[0]
    separator = arguments[1] if len(arguments) == 2 else "''"
    order, end = "", first
    after = [n for n in range(first + 1, len(tokens)) if tokens[n].kind != "space"][:3]
    if len(after) == 3 and [tokens[n].value for n in after] == ["within", "group", "("]:
        end = find_close(tokens, after[1])
        order = " " + join_tokens(tokens[after[2] + 1 : end])
    begin = "string_agg(distinct " if distinct else "string_agg("
    text = f"{begin}({value})::text, {separator}{order})"
    return [*tokens[:at], *tokens_of(text), *_listagg(tokens[end + 1 :])]


def _arguments(tokens: Sequence[Token], at: int, end: int) -> list[str]:
    begin = next(n for n in range(at, end) if tokens[n].value == "(")
    arguments: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[begin + 1 : end]:
        if token.kind == "sign":
            depth += (token.value == "(") - (token.value == ")")
        if token.kind == "sign" and token.value == "," and not depth:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return [join_tokens(part).strip() for part in arguments]
