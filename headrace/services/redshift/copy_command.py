"""Reads SQL as far as headrace must: tokens of any statement, and COPY.

Parses Redshift's COPY statement. Source: docs.aws.amazon.com/redshift/latest/dg/r_COPY.html (documented).

Splits SQL into tokens: enough to find a statement's end and kind, and the words to translate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from headrace.core.ports.warehouses import WarehouseError

Format = Literal["text", "csv", "json"]
# Options of Redshift's COPY that headrace does not support.
_NOT_HERE = frozenset(
    {"avro", "parquet", "orc", "shapefile", "fixedwidth", "rcfile", "sequencefile", "lzop", "zstd",
     "ssh", "encrypted", "master_symmetric_key"}
)  # fmt: skip
_FLAGS = {
    "manifest": "manifest",
    "gzip": "gzip",
    "bzip2": "bzip2",
    "acceptanydate": "any_date",
    "blanksasnull": "blanks_as_null",
    "emptyasnull": "empty_as_null",
    "escape": "escape",
    "explicit_ids": "explicit_ids",
    "fillrecord": "fill_record",
    "ignoreblanklines": "ignore_blank_lines",
    "ignoreallerrors": "ignore_all_errors",
    "noload": "no_load",
    "removequotes": "remove_quotes",
    "trimblanks": "trim_blanks",
    "truncatecolumns": "truncate_columns",
    "roundec": "round_decimals",
}
_MOST_ERRORS = 100_000


@dataclass(slots=True)
class Copy:
    """A COPY statement. `region` is empty if it has none; `role` is an ARN, `default`, or empty."""

    table: str
    schema: str = ""
    columns: list[str] = field(default_factory=list[str])
    source: str = ""
    role: str = ""
    has_keys: bool = False
    region: str = ""
    format: Format = "text"
    json: str = "auto"
    delimiter: str = "|"
    quote: str = '"'
    null_as: str = "\\N"
    ignore_header: int = 0
    max_error: int = 0
    accept_invalid: str | None = None
    time_format: str = ""
    date_format: str = ""
    flags: set[str] = field(default_factory=set[str])

    def has(self, flag: str) -> bool:
        """Return whether the statement has a flag, by its name in `_FLAGS`."""
        return flag in self.flags


def is_copy(sql: str) -> bool:
    """Return whether a statement is a COPY."""
    tokens = drop_spaces(tokens_of(sql))
    return bool(tokens) and tokens[0].kind == "word" and tokens[0].value == "copy"


def parse_copy(sql: str) -> Copy:
    """Parse a COPY statement. Raises WarehouseError for invalid syntax, or options that exclude one another."""
    copy = _Reader(drop_spaces(tokens_of(sql))).read()
    if copy.format == "json" and (copy.has("remove_quotes") or copy.has("escape")):
        raise _conflict("JSON", "REMOVEQUOTES" if copy.has("remove_quotes") else "ESCAPE")
    if copy.format == "csv" and (copy.has("remove_quotes") or copy.has("escape")):
        raise _conflict("CSV", "REMOVEQUOTES" if copy.has("remove_quotes") else "ESCAPE")
    if copy.has("gzip") and copy.has("bzip2"):
        raise _conflict("GZIP", "BZIP2")
    return copy


def _conflict(one: str, other: str) -> WarehouseError:
    return WarehouseError("IncorrectCopyOptions", f"ERROR: {one} is not compatible with {other}")


class _Reader:
    """Parses the tokens of one statement."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._seen: set[str] = set()
        self._copy = Copy("")

    def read(self) -> Copy:
        """Return the statement. Raises WarehouseError."""
        self._word("copy")
        names = [self._name()]
        while self._is("."):
            self._at += 1
            names.append(self._name())
        self._copy.table, self._copy.schema = names[-1], names[-2] if len(names) > 1 else ""
        if self._is("("):
            self._at += 1
            self._copy.columns.append(self._name())
            while self._is(","):
                self._at += 1
                self._copy.columns.append(self._name())
            self._sign(")")
        self._word("from")
        self._copy.source = self._text()
        if not self._copy.source.startswith("s3://"):
            raise WarehouseError(
                "SyntaxError",
                f"ERROR: headrace does not support COPY from {self._copy.source} yet.",
            )
        while self._at < len(self._tokens):
            if self._is(";") and self._at == len(self._tokens) - 1:
                break
            self._option()
        return self._copy

    def _option(self) -> None:
        token = self._tokens[self._at]
        if token.kind != "word":
            raise self._wrong()
        name = token.value
        self._at += 1
        if name in ("format", "as", "with"):
            return
        if name in _NOT_HERE:
            raise WarehouseError(
                "SyntaxError", f"ERROR: headrace does not support {name.upper()} in COPY yet."
            )
        if name in self._seen:
            raise WarehouseError(
                "IncorrectCopyOptions", f"ERROR: conflicting or redundant options: {name}"
            )
        self._seen.add(name)
        if name in _FLAGS:
            self._copy.flags.add(_FLAGS[name])
            self._optional_word("on", "off")
        elif not self._apply_value_option(name) and not self._authorization(name):
            self._at -= 1
            raise self._wrong()

    def _apply_value_option(self, name: str) -> bool:
        copy = self._copy
        match name:
            case "json":
                self._optional_word("as")
                copy.format, copy.json = "json", self._optional_text("auto")
            case "csv":
                copy.format = "csv"
                copy.delimiter = copy.delimiter if "delimiter" in self._seen else ","
            case "quote":
                self._optional_word("as")
                copy.quote = self._text()
            case "delimiter":
                self._optional_word("as")
                copy.delimiter = _unescape(self._text())
            case "null":
                self._optional_word("as")
                copy.null_as = self._text()
            case "region":
                self._optional_word("as")
                copy.region = self._text()
            case "timeformat":
                self._optional_word("as")
                copy.time_format = self._text()
            case "dateformat":
                self._optional_word("as")
                copy.date_format = self._optional_text("auto")
            case "acceptinvchars":
                self._optional_word("as")
                copy.accept_invalid = self._optional_text("?")
            case _:
                return self._apply_count_option(name)
        return True

    def _apply_count_option(self, name: str) -> bool:
        copy = self._copy
        match name:
            case "ignoreheader":
                self._optional_word("as")
                copy.ignore_header = self._number()
            case "maxerror":
                self._optional_word("as")
                copy.max_error = min(self._number(), _MOST_ERRORS)
            case "encoding":
                self._optional_word("as")
                if self._any().lower() not in ("utf8", "utf-8"):
                    raise WarehouseError(
                        "SyntaxError",
                        "ERROR: headrace does not support encodings but UTF8 in COPY yet.",
                    )
            case "compupdate" | "statupdate":
                self._optional_word("on", "off", "preset", "true", "false")
            case "comprows" | "readratio":
                self._number()
            case _:
                return False
        return True

    def _authorization(self, name: str) -> bool:
        copy = self._copy
        match name:
            case "iam_role":
                copy.role = self._any()
            case "credentials":
                self._optional_word("as")
                words = self._text()
                role = words.partition("aws_iam_role=")[2]
                copy.role, copy.has_keys = role.partition(";")[0], not role
            case "access_key_id" | "secret_access_key" | "session_token":
                self._text()
                copy.has_keys = True
            case _:
                return False
        return True

    # --- tokens -------------------------------------------------------------------------------

    def _is(self, sign: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].raw == sign

    def _take(self, *kinds: str) -> Token:
        if self._at >= len(self._tokens) or self._tokens[self._at].kind not in kinds:
            raise self._wrong()
        self._at += 1
        return self._tokens[self._at - 1]

    def _name(self) -> str:
        return self._take("word", "name").value.lower()

    def _text(self) -> str:
        return self._take("text").value

    def _any(self) -> str:
        return self._take("text", "word", "name").value

    def _number(self) -> int:
        token = self._take("number", "text")
        if not token.value.isdecimal():
            raise self._wrong()
        return int(token.value)

    def _optional_text(self, default: str) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at].kind == "text":
            return self._text()
        return default

    def _optional_word(self, *names: str) -> None:
        if self._at < len(self._tokens) and self._tokens[self._at].value in names:
            self._at += 1

    def _word(self, name: str) -> None:
        if self._take("word").value != name:
            self._at -= 1
            raise self._wrong()

    def _sign(self, sign: str) -> None:
        if self._take("sign").value != sign:
            self._at -= 1
            raise self._wrong()

    def _wrong(self) -> WarehouseError:
        if self._at < len(self._tokens):
            return WarehouseError(
                "SyntaxError", f'ERROR: syntax error at or near "{self._tokens[self._at].raw}"'
            )
        return WarehouseError("SyntaxError", "ERROR: syntax error at end of input")


def _unescape(text: str) -> str:
    """Return a delimiter, which may be a tab's escape or an octal escape. Raises WarehouseError."""
    if text == "\\t":
        return "\t"
    if len(text) == 4 and text[0] == "\\" and text[1:].isdecimal():
        return chr(int(text[1:], 8))
    if len(text) == 1:
        return text
    raise WarehouseError("IncorrectCopyOptions", "ERROR: COPY delimiter must be a single character")


_DIGITS = "0123456789"
_OPERATORS = "<>=!|&~^%*/+-@?"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL.

    Attributes:
        kind: `word`, `name` (in double quotes), `text` (in single quotes or dollars), `number`, `sign`, `space`
            (comments too).
        raw: its original text.
        value: a name or a text without quotes; a word in lower case.
    """

    kind: str
    raw: str
    value: str


def tokens_of(sql: str) -> list[Token]:
    """Return the tokens of SQL; an unclosed token extends to the end. The time is linear in the length."""
    tokens: list[Token] = []
    at = 0
    while at < len(sql):
        token = _next(sql, at)
        tokens.append(token)
        at += len(token.raw)
    return tokens


def _next(sql: str, at: int) -> Token:
    char = sql[at]
    if char.isspace() or sql.startswith(("--", "/*"), at):
        raw = _space(sql, at)
        return Token("space", raw, " ")
    if char in "'\"":
        raw, value = _read_quoted(sql, at, char)
        return Token("text" if char == "'" else "name", raw, value)
    if char == "$":
        raw, value = _dollars(sql, at)
        return Token("text" if raw != "$" else "sign", raw, value)
    if char.isalpha() or char in "_#":
        end = at + 1
        while end < len(sql) and (sql[end].isalnum() or sql[end] in "_$"):
            end += 1
        raw = sql[at:end]
        if raw.lower() == "e" and sql.startswith("'", end):
            text, value = _read_quoted(sql, end, "'", escapes=True)
            return Token("text", raw + text, value)
        return Token("word", raw, raw.lower())
    if char in _DIGITS:
        end = at + 1
        while end < len(sql) and (sql[end].isalnum() or sql[end] == "."):
            end += 1
        return Token("number", sql[at:end], sql[at:end])
    end = at + 1
    # An operator of several characters is one token, so that it stays whole.
    while char in _OPERATORS and end < len(sql) and sql[end] in _OPERATORS:
        if sql.startswith(("--", "/*"), end):
            break
        end += 1
    return Token("sign", sql[at:end], sql[at:end])


def _space(sql: str, at: int) -> str:
    if sql.startswith("--", at):
        end = sql.find("\n", at)
        return sql[at:] if end < 0 else sql[at:end]
    if sql.startswith("/*", at):
        end = sql.find("*/", at + 2)
        return sql[at:] if end < 0 else sql[at : end + 2]
    end = at
    while end < len(sql) and sql[end].isspace():
        end += 1
    return sql[at:end]


def _read_quoted(sql: str, at: int, quote: str, *, escapes: bool = False) -> tuple[str, str]:
    parts: list[str] = []
    end = at + 1
    while end < len(sql):
        if escapes and sql[end] == "\\" and end + 1 < len(sql):
            parts.append(sql[end + 1])
            end += 2
        elif sql[end] != quote:
            parts.append(sql[end])
            end += 1
        elif sql.startswith(quote, end + 1):
            parts.append(quote)
            end += 2
        else:
            return sql[at : end + 1], "".join(parts)
    return sql[at:], "".join(parts)


def _dollars(sql: str, at: int) -> tuple[str, str]:
    end = at + 1
    while end < len(sql) and (sql[end].isalnum() or sql[end] == "_"):
        end += 1
    if end >= len(sql) or sql[end] != "$":
        return "$", "$"
    tag = sql[at : end + 1]
    close = sql.find(tag, end + 1)
    if close < 0:
        return sql[at:], sql[end + 1 :]
    return sql[at : close + len(tag)], sql[end + 1 : close]


def drop_spaces(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens without spaces and comments."""
    return [token for token in tokens if token.kind != "space"]


def statements_of(sql: str) -> list[str]:
    """Return the statements between semicolons, without empty ones."""
    statements: list[str] = []
    parts: list[Token] = []
    for token in [*tokens_of(sql), Token("sign", ";", ";")]:
        if token.kind == "sign" and token.value == ";":
            if drop_spaces(parts):
                statements.append("".join(part.raw for part in parts).strip())
            parts = []
        else:
            parts.append(token)
    return statements


def join_tokens(tokens: Sequence[Token]) -> str:
    """Return the SQL of tokens."""
    return "".join(token.raw for token in tokens)


def quote_name(name: str) -> str:
    """Return a name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def find_close(tokens: Sequence[Token], at: int) -> int:
    """Return the place that closes the first parenthesis from `at` on. Raises WarehouseError."""
    depth = 0
    for n in range(at, len(tokens)):
        if tokens[n].kind == "sign":
            depth += (tokens[n].value == "(") - (tokens[n].value == ")")
            if depth == 0 and tokens[n].value == ")":
                return n
    raise WarehouseError("SyntaxError", "ERROR: syntax error at end of input")
