"""Functions of text (JSON, URLs, masks, encodings, patterns), aggregates and table functions; see `types.py`."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportMissingTypeStubs=false

from __future__ import annotations

# A value of SQL is of any type until it is computed; re2 has no types.
import base64
import struct

# A value of SQL is of any type until it is computed.
import unicodedata
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import quote_plus, unquote, unquote_plus, urlsplit

import re2

from headrace.sql.types import (
    BIGINT,
    BYTES,
    DOUBLE,
    INT,
    STRING,
    Function,
    array_of,
    as_int,
    map_of,
)

ENCODINGS = ("hex", "utf8", "ascii", "base64")
_MASKS = ("'X'", "'x'", "'n'", "'-'")
_MASK_OF_CATEGORY = {"Lu": 0, "Ll": 1, "Nd": 2}


def _to_bytes(value: str, encoding: str) -> bytes:
    if encoding == "hex":
        match = re2.fullmatch(_HEX, value)
        if match is None:
            raise ValueError(value)
        digits = next((one for one in match.groups() if one), "")
        return bytes.fromhex("0" * (len(digits) % 2 * value.startswith("0x")) + digits)
    if encoding == "base64":
        return base64.b64decode(value, validate=True)
    return value.encode("ascii" if encoding == "ascii" else "utf-8", "replace")


def _from_bytes(value: bytes, encoding: str) -> str:
    if encoding == "hex":
        return value.hex()
    if encoding == "base64":
        return base64.b64encode(value).decode()
    return value.decode("ascii", "replace") if encoding == "ascii" else value.decode()


def _spark_to_bytes(value: str, encoding: str) -> str:
    return {
        # Spark takes an odd number of digits, and no mark.
        "'hex'": f"CASE WHEN {value} RLIKE '^{_HEX_IN_SPARK}$' "
        f"THEN unhex(regexp_replace({value}, '^0x|^[Xx]\\'|\\'$', '')) END",
        # What is no base64 would end the job.
        "'base64'": f"CASE WHEN {value} RLIKE '^[A-Za-z0-9+/]*={{0,2}}\\\\z' AND length({value}) % 4 = 0"
        f" THEN unbase64({value}) END",
        # What ASCII has not would end Spark 4's job.
        "'ascii'": f"encode(regexp_replace({value}, '[^\\\\x00-\\\\x7F]', '?'), 'US-ASCII')",
    }.get(encoding, f"encode({value}, 'UTF-8')")


# Digits in pairs, also as X'..'; any number of them after 0x.
_HEX = "0x([0-9A-Fa-f]*)|[Xx]'((?:[0-9A-Fa-f]{2})*)'|((?:[0-9A-Fa-f]{2})*)"
_HEX_IN_SPARK = f"({_HEX})".replace("'", "\\'")
# Of bytes that are no UTF-8 Spark 4 would end the job.
_SPARK_IS_TEXT = (
    "regexp_replace(hex({}), '\\\\G([0-7].|(C[2-9A-F]|D.)[89AB].|E0[AB].[89AB].|E[1-9ABCEF][89AB].[89AB].|"
    "ED[89].[89AB].|F0[9AB].[89AB].[89AB].|F[1-3][89AB].[89AB].[89AB].|F48.[89AB].[89AB].)', '') = ''"
)


def _spark_from_bytes(value: str, encoding: str) -> str:
    return {
        "'hex'": f"lower(hex({value}))",
        # Some versions of Spark break the line after 76 characters.
        "'base64'": f"replace(base64({value}), '\\r\\n', '')",
        # A byte that ASCII has not is U+FFFD.
        "'ascii'": f"decode(unhex(regexp_replace(hex({value}), "
        "'\\\\G((?:[0-7].)*)[89A-F].', '$1EFBFBD')), 'UTF-8')",
    }.get(encoding, f"CASE WHEN {_SPARK_IS_TEXT.format(value)} THEN decode({value}, 'UTF-8') END")


def _number(value: bytes, size: int, order: str = "BIG_ENDIAN") -> int | None:
    """Return the whole number of `size` bytes; None of other bytes and of an order that is none."""
    if len(value) != size or order.upper() not in _ORDERS:
        return None
    return int.from_bytes(value, _ORDERS[order.upper()], signed=True)


def _double(value: bytes, order: str = "BIG_ENDIAN") -> float | None:
    """Return the DOUBLE of eight bytes, as IEEE 754 has it; None of other bytes and of an order that is none."""
    if len(value) != 8 or order.upper() not in _ORDERS:
        return None
    return float(struct.unpack(">d" if order.upper() == "BIG_ENDIAN" else "<d", value)[0])


def _spark_digits(value: str, size: int, order: str) -> str:
    """Return the text of the hexadecimal digits of `size` bytes, the largest first; NULL of an order that is none."""
    name, digits = order.strip("'").upper(), f"hex({value})"
    if name not in _ORDERS:
        return "cast(NULL AS STRING)"
    if name == "BIG_ENDIAN":
        return digits
    pairs = (f"substring({digits}, {place}, 2)" for place in range(2 * size - 1, 0, -2))
    return f"concat({', '.join(pairs)})"


def _spark_double(value: str, order: str = "'BIG_ENDIAN'") -> str:
    digits = _spark_digits(value, 8, order)
    high = f"cast(conv(substring({digits}, 1, 3), 16, 10) AS INT)"
    rest, exponent = f"cast(conv(substring({digits}, 4), 16, 10) AS DOUBLE)", f"({high} % 2048)"
    # Powers of two, and what they multiply, are exact.
    size = (
        f"CASE {exponent} WHEN 0 THEN {rest} * power(2D, -1074) "
        f"WHEN 2047 THEN if({rest} = 0, double('Infinity'), double('NaN')) "
        f"ELSE (1 + {rest} / {2**52}D) * power(2D, {exponent} - 1023) END"
    )
    return f"CASE WHEN length({value}) = 8 THEN if({high} < 2048, 1D, -1D) * {size} END"


def _spark_number(value: str, size: int, order: str = "'BIG_ENDIAN'") -> str:
    digits = _spark_digits(value, size, order)
    # conv() is of 64 bits.
    sign = f"if({digits} >= '8', repeat('F', {16 - 2 * size}), '')"
    number = f"cast(conv(concat({sign}, {digits}), 16, -10) AS {'INT' if size == 4 else 'BIGINT'})"
    return f"CASE WHEN length({value}) = {size} THEN {number} END"


_ORDERS: dict[str, Literal["big", "little"]] = {"BIG_ENDIAN": "big", "LITTLE_ENDIAN": "little"}


def _mask(value: str, *masks: str | None) -> str:
    chosen: list[str | None] = [*masks, *(mask[1] for mask in _MASKS[len(masks) :])]

    def masked(character: str) -> str:
        if character > "\uffff":
            # Java has it as two characters, neither of which is a letter.
            return 2 * chosen[3] if chosen[3] else character
        return chosen[_MASK_OF_CATEGORY.get(unicodedata.category(character), 3)] or character

    return "".join(map(masked, value))


def _spark_mask(value: str, *masks: str) -> str:
    return f"mask({', '.join((value, *masks, *_MASKS[len(masks) :]))})"


def _mask_function(name: str, python: Callable[..., str], spark: str) -> Function:
    """Return a MASK function of a part; in `spark`, M and K stand for the masked and the kept part's function."""

    def written(value: str, count: str, *masks: str) -> str:
        text_ = spark.replace("{s}", value).replace(
            "{n}", as_int(f"greatest({count}, 0 * {count})")
        )
        before, _, rest = text_.partition("M(")
        inner, _, after = rest.partition(")M")
        return before + _spark_mask(inner, *masks) + after

    return Function(name, "SIK?K?K?K?", STRING, written, python, null_from=2)


def _take_left(value: str, count: int) -> str:
    return value[: min(max(count, 0), len(value))]


def _right(value: str, count: int) -> str:
    return value[max(len(value) - max(count, 0), 0) :]


def _url(value: str) -> Any:
    parts = urlsplit(value)
    is_spaced = any(character.isspace() for character in value)
    if (
        is_spaced
        or "[" in parts.path
        or re2.search(_NO_URL, value)
        or not re2.fullmatch(_ESCAPED, value)
    ):
        raise ValueError(value)
    return parts


# As Java's URI: a character that none has, and a scheme that is no name.
_NO_URL = r"[\x00-\x20\x7F<>\"\\^`{|}]|^(?:[^A-Za-z/?#][^/?#]*)?:|^[A-Za-z][^:/?#]*[^A-Za-z0-9+.:/?#-][^:/?#]*:"
_ESCAPED = r"(?s:(?:[^%]|%[0-9A-Fa-f]{2})*)"


def _decoded(text_: str) -> str:
    """Return Spark's text of a part of a URL without its escapes; unlike in a form, a plus is one."""
    return f"url_decode(replace({text_}, '+', '%2B'))"


def _spark_parameter(url: str, name: str) -> str:
    key = _decoded("substring_index(_p, '=', 1)")
    value = _decoded("substring(_p, instr(_p, '=') + 1)")
    parts = f"filter(split(parse_url({url}, 'QUERY'), '&'), _p -> {key} = {name} AND instr(_p, '=') > 0)"
    return f"get(transform({parts}, _p -> {value}), 0)"


def _parameter(value: str, name: str) -> str | None:
    pairs = (part.partition("=") for part in _url(value).query.split("&"))
    return next(
        (unquote(of) for key, is_pair, of in pairs if is_pair and unquote(key) == name), None
    )


def _matches(pattern: str, value: str, group: int = 0) -> list[str]:
    return [str(match.group(group) or "") for match in re2.finditer(pattern, value)]


def _split_by(value: str, pattern: str) -> list[str]:
    parts: list[str] = []
    position = 0
    if not pattern:
        return list(value) or [""]
    for match in re2.finditer(pattern, value):
        # As Java, of what matches nothing at the beginning.
        if match.end() or match.start():
            parts.append(value[position : match.start()])
            position = match.end()
    return [*parts, value[position:]]


def _split_to_map(value: str, between: str, within: str) -> dict[str, str]:
    pairs = [entry.split(within) for entry in value.split(between)]
    return {pair[0]: pair[1] for pair in pairs if len(pair) > 1}


def literal_split(value: str, delimiter: str) -> str:
    """Return how Spark splits a text at a delimiter that is no pattern."""
    quoted = f"replace({delimiter}, '\\\\E', '\\\\E\\\\\\\\E\\\\Q')"
    # Nothing divides a text into its characters, if it is a pattern of nothing.
    return f"split({value}, if({delimiter} = '', '', concat('\\\\Q', {quoted}, '\\\\E')), -1)"


def _spark_split_to_map(value: str, between: str, within: str) -> str:
    pairs = f"transform({literal_split(value, between)}, _e -> {literal_split('_e', within)})"
    pairs = f"transform(filter({pairs}, _p -> size(_p) > 1), _p -> struct(_p[0], _p[1]))"
    return f"CASE WHEN {between} <> '' AND {within} <> '' THEN map_from_entries({pairs}) END"


def _nth(number: int, *values: str) -> str | None:
    return values[number - 1] if 0 < number <= len(values) else None


def _place(value: str | None, *values: str | None) -> int:
    return 0 if value is None or value not in values else values.index(value) + 1


# UTF-16 as Java escapes it; half a pair is no character.
_LOW = r"\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}"
_ESCAPES = (
    r"(\\u([0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}|"
    rf"[Dd][89ABab][0-9A-Fa-f]{{2}}{_LOW}))+"
)


def _character(code: Any) -> str | None:
    """Return the character of a number, or those of a text of escapes."""
    if isinstance(code, int):
        return chr(code) if 0 <= code < 0xD800 or 0xE000 <= code <= 0x10FFFF else None
    if not re2.fullmatch(_ESCAPES, code):
        return None
    return bytes.fromhex(code.replace("\\u", "")).decode("utf-16-be")


def _spark_character(code: str) -> str:
    # Spark's chr() has 256 characters.
    escapes = _ESCAPES.replace("\\", "\\\\")
    of_text = (
        f"CASE WHEN {code} RLIKE '^{escapes}$' "
        f"THEN decode(unhex(replace({code}, '\\\\u', '')), 'UTF-16BE') END"
    )
    number = f"cast({code} AS BIGINT)"
    is_one = f"{number} BETWEEN 0 AND 55295 OR {number} BETWEEN 57344 AND 1114111"
    of_number = f"CASE WHEN {is_one} THEN decode(unhex(lpad(hex({number}), 8, '0')), 'UTF-32') END"
    return f"if(typeof({code}) = 'string', {of_text}, {of_number})"


TEXT_FUNCTIONS: tuple[Function, ...] = (
    # Text and bytes.
    Function("CHR", "H", STRING, _spark_character, _character),
    Function("ELT", "IS+", STRING, lambda n, *a: f"elt({', '.join((as_int(n), *a))})", _nth, null_from=1),
    Function("FIELD", "SS+", INT, lambda s, *a: f"cast(coalesce(array_position(array({', '.join(a)}), {s}), 0) AS INT)",
             _place, takes_null=True),
    Function("ENCODE", "SEE", STRING, lambda s, a, b: _spark_from_bytes(_spark_to_bytes(s, a), b),
             lambda s, a, b: _from_bytes(_to_bytes(s, a), b)),
    Function("TO_BYTES", "SE", BYTES, _spark_to_bytes, _to_bytes),
    # ENCODE writes hexadecimal digits in small letters, FROM_BYTES in capitals.
    Function("FROM_BYTES", "XE", STRING,
             lambda v, e: f"hex({v})" if e == "'hex'" else _spark_from_bytes(v, e),
             lambda v, e: v.hex().upper() if e == "hex" else _from_bytes(v, e)),
    Function("INT_FROM_BYTES", "XK?", INT, lambda v, *o: _spark_number(v, 4, *o), lambda v, *o: _number(v, 4, *o)),
    Function("BIGINT_FROM_BYTES", "XK?", BIGINT, lambda v, *o: _spark_number(v, 8, *o),
             lambda v, *o: _number(v, 8, *o)),
    Function("DOUBLE_FROM_BYTES", "XK?", DOUBLE, _spark_double, _double),
    Function("REGEXP_EXTRACT_ALL", "SSI?", array_of(STRING),
             lambda p, s, n="0": f"regexp_extract_all({s}, {p}, {n})", _matches),
    Function("REGEXP_SPLIT_TO_ARRAY", "SS", array_of(STRING), "split({0}, {1}, -1)", _split_by),
    Function("SPLIT_TO_MAP", "SSS", map_of(STRING, STRING), _spark_split_to_map,
             lambda s, a, b: _split_to_map(s, a, b) if a and b else None),
    Function("MASK", "SK?K?K?K?", STRING, _spark_mask, _mask, null_from=1),
    _mask_function("MASK_LEFT", lambda s, n, *m: _mask(_take_left(s, n), *m) + s[max(n, 0) :],
                 "concat(M(left({s}, {n}))M, substring({s}, {n} + 1))"),
    _mask_function("MASK_RIGHT", lambda s, n, *m: _take_left(s, len(s) - n) + _mask(_right(s, n), *m),
                 "concat(left({s}, greatest(length({s}) - {n}, 0)), M(right({s}, {n}))M)"),
    _mask_function("MASK_KEEP_LEFT", lambda s, n, *m: _take_left(s, n) + _mask(s[max(n, 0) :], *m),
                 "concat(left({s}, {n}), M(substring({s}, {n} + 1))M)"),
    _mask_function("MASK_KEEP_RIGHT", lambda s, n, *m: _mask(_take_left(s, len(s) - n), *m) + _right(s, n),
                 "concat(M(left({s}, greatest(length({s}) - {n}, 0)))M, right({s}, {n}))"),
    # URLs.
    Function("URL_ENCODE_PARAM", "S", STRING, "url_encode({0})",
             lambda s: quote_plus(s, safe="*-._").replace("~", "%7E")),
    Function("URL_DECODE_PARAM", "S", STRING,
             "CASE WHEN NOT {0} RLIKE '%(?![0-9A-Fa-f]{{2}})' THEN url_decode({0}) END",
             lambda s: unquote_plus(s) if re2.fullmatch(_ESCAPED, s) else None),
    Function("URL_EXTRACT_PROTOCOL", "S", STRING, "parse_url({0}, 'PROTOCOL')", lambda s: _url(s).scheme or None),
    Function("URL_EXTRACT_HOST", "S", STRING, "parse_url({0}, 'HOST')", lambda s: _url(s).hostname),
    Function("URL_EXTRACT_PORT", "S", INT,
             "try_cast(nullif(regexp_extract(parse_url({0}, 'AUTHORITY'), ':([0-9]+)$', 1), '') AS INT)",
             lambda s: _url(s).port),
    Function("URL_EXTRACT_PATH", "S", STRING, _decoded("parse_url({0}, 'PATH')"), lambda s: unquote(_url(s).path)),
    Function("URL_EXTRACT_QUERY", "S", STRING, _decoded("parse_url({0}, 'QUERY')"),
             lambda s: unquote(_url(s).query) if "?" in s.partition("#")[0] else None),
    Function("URL_EXTRACT_FRAGMENT", "S", STRING, _decoded("parse_url({0}, 'REF')"),
             lambda s: unquote(_url(s).fragment) if "#" in s else None),
    Function("URL_EXTRACT_PARAMETER", "SS", STRING, _spark_parameter, _parameter),
)  # fmt: skip
