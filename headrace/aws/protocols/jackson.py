"""Why a text is no JSON, in the words of the Java library that AWS Lambda reads with, as callers get to see them.

Sources: Invoke's two recorded refusals (LocalStack's tests/aws/services/lambda_/test_lambda.py,
08-04-2024), those that users published, and the sentences of Jackson's UTF8StreamJsonParser (documented
by its source). Columns are of bytes, and count what was read.
"""

from __future__ import annotations

import json
import re

_VALUES = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
_SHOWN_BYTES = 500
_LONGEST_TOKEN = 256
_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_SENTENCES = {
    "Expecting property name": "was expecting double-quote to start field name",
    "Expecting ':'": "was expecting a colon to separate field name and value",
    "Illegal trailing comma before end of object": "was expecting double-quote to start field name",
    "Expecting ','": "was expecting comma to separate {} entries",
}


def explain(body: bytes, otherwise: str) -> str:
    """Return why bytes are no JSON, and where; `otherwise` says what is wrong if they are."""
    text = body.decode("latin-1")  # a character for each byte
    try:
        json.loads(text)
        return _explain_encoding(body) or f"{otherwise}{_place(body, 0)}"
    except json.JSONDecodeError as error:
        return _explain_mistake(body, text, error)
    except (RecursionError, ValueError):  # more levels, or more digits, than Python allows
        return f"too deep a value, or too long a number{_place(body, 0)}"


def _explain_encoding(body: bytes) -> str | None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        is_start = error.reason == "invalid start byte" or error.end >= len(body)
        kind, at = ("start", error.start) if is_start else ("middle", error.end)
        return f"Invalid UTF-8 {kind} byte 0x{body[at]:x}{_place(body, at + 1)}"
    return None


def _explain_mistake(body: bytes, text: str, error: json.JSONDecodeError) -> str:
    at = error.pos
    if error.msg.startswith("Illegal trailing comma"):  # Python 3.13 points at the comma
        at = len(text) - len(text[at + 1 :].lstrip())
    if error.msg.startswith("Unterminated string"):
        why = "Unexpected end-of-input: was expecting closing quote for a string value"
        return why + _place(body, len(body))
    if at >= len(text):
        return _explain_end(body, text)
    if error.msg.startswith("Invalid control character"):
        why = "has to be escaped using backslash to be included in string value"
        return f"Illegal unquoted character ({_describe(text[at])}): {why}{_place(body, at + 1)}"
    if error.msg.startswith("Invalid \\"):
        character = text[at + 1 : at + 2]
        return f"Unrecognized character escape {_describe(character)}{_place(body, at + 2)}"
    for start, sentence in _SENTENCES.items():
        if error.msg.startswith(start):
            why = sentence.format(_find_open(text[:at])[0])
            return f"Unexpected character ({_describe(text[at])}): {why}{_place(body, at + 1)}"
    return _explain_value(body, text, at)


def _explain_value(body: bytes, text: str, at: int) -> str:
    """Return why no value begins at a place."""
    first = text[at]
    if first.isidentifier() or first == "$":
        return _explain_token(body, text, at)
    after = text[at + 1 : at + 2]
    if first == "-" and after:
        why = "in numeric value: expected digit (0-9) to follow minus sign, for valid numeric value"
        return f"Unexpected character ({_describe(after)}) {why}{_place(body, at + 2)}"
    is_closing = first in ",}" or (first == "]" and _find_open(text[:at])[0] == "Array")
    why = "expected a value" if is_closing else f"expected a valid value {_VALUES}"
    return f"Unexpected character ({_describe(first)}): {why}{_place(body, at + 1)}"


def _explain_token(body: bytes, text: str, at: int) -> str:
    """Return that a word is no value; the parser reads it to its end, as UTF-8."""
    rest = body[at + 1 : at + _LONGEST_TOKEN]
    wrong = None
    try:
        word = rest.decode()
    except UnicodeDecodeError as error:
        word, wrong = rest[: error.start].decode(), error.start
    found = re.match(r"[\w$]*", word)
    length = len(found[0].encode()) if found else 0
    if wrong is not None and length == wrong:
        place = at + 1 + wrong
        return f"Invalid UTF-8 start byte 0x{body[place]:x}{_place(body, place + 1)}"
    token, end = text[at] + (found[0] if found else ""), min(at + length + 2, len(body))
    if len(token) >= _LONGEST_TOKEN:
        token, end = f"{token[:_LONGEST_TOKEN]}...", at + length + 1
    return f"Unrecognized token '{token}': was expecting {_VALUES}{_place(body, end)}"


def _explain_end(body: bytes, text: str) -> str:
    kind, start = _find_open(text)
    if start is None:
        return f"No content to map due to end-of-input{_place(body, len(body))}"
    marker = f"{kind} (start marker at {_source(body, start)})"
    why = f"Unexpected end-of-input: expected close marker for {marker}"
    return why + _place(body, len(body))


def _find_open(text: str) -> tuple[str, int | None]:
    """Return of which kind the value is that a text leaves open last, and where it begins."""
    opened: list[int] = []
    for found in _STRINGS_AND_BRACKETS.finditer(text):
        if found[0] in ("[", "{"):
            opened.append(found.start())
        elif found[0] in ("]", "}") and opened:
            opened.pop()
    if not opened:
        return "Object", None
    return ("Array" if text[opened[-1]] == "[" else "Object"), opened[-1]


def _describe(character: str) -> str:
    code = ord(character) if character else 0
    if code < 32 or 127 <= code < 160:
        return f"(CTRL-CHAR, code {code})"
    return f"'{character}' (code {code})"


def _place(body: bytes, read: int) -> str:
    return f"\n at {_source(body, read)}"


def _source(body: bytes, read: int) -> str:
    """Return what was read, and the line and column after so many bytes of it."""
    lines = body[: max(read - 1, 0)].split(b"\n")
    column = len(lines[-1]) + min(read, 1) + 1
    shown = body[:_SHOWN_BYTES].decode(errors="replace")
    left = len(body) - _SHOWN_BYTES
    more = f"[truncated {left} bytes]" if left > 0 else ""
    return f'[Source: (byte[])"{shown}"{more}; line: {len(lines)}, column: {column}]'
