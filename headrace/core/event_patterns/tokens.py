"""Reads JSON token by token as Jackson does, with which AWS reads event patterns, and refuses where Jackson stands.

AWS's refusals end with the source and the place of the parser (recorded). Jackson (documented: jackson-core 2.17,
`ReaderBasedJsonParser`) reads a member's name together with the first letter of its value; it reads a number or a word
whole, and a string only when somebody asks for its text. No I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json import JSONDecodeError, decoder
from typing import Any, NoReturn

# Python's own reader of strings, which typeshed does not have.
_scan_string: Callable[[str, int, bool], tuple[str, int]] = decoder.scanstring  # type: ignore[attr-defined]
# The kinds of tokens that are values of their own.
SCALARS = ("string", "number", "word")
_LONGEST_SHOWN_SOURCE = 500
_LONGEST_SHOWN_WORD = 256
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[\w$]*")
_LINE_END = re.compile(r"\r\n?|\n")
_CONTROL = re.compile(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_WORDS = ("true", "false", "null")
_VALUES = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
_CLOSING = {"{": "}", "[": "]"}
_SCOPES = {"{": "Object", "[": "Array"}


class BadEventPattern(ValueError):
    """The text is not an event pattern; the message is EventBridge's reason, with the place if AWS says one."""


class Tokens:
    """The tokens of a text. Not for several threads.

    Attributes:
        kind: the token: `{`, `}`, `[`, `]`, `name`, `string`, `number`, `word` (true, false, null), or `` at the end.
        name: the name of the member that was read last.
    """

    def __init__(self, text: str, *, is_old: bool = False) -> None:
        """Read nothing yet. `is_old`: as Jackson before 2.17, a wrong letter's place is the one behind it."""
        self.kind = ""
        self.name = ""
        self._text = text
        self._place = 0
        self._letters_back = 0 if is_old else 1
        self._value: Any = None
        self._next_kind = ""
        self._is_unread = False
        self._scopes: list[tuple[str, int]] = []
        self._expects_comma = False

    def next(self) -> str:
        """Read the next token; return its kind. Raises BadEventPattern."""
        if self.kind == "name":
            self.kind = self._next_kind
            return self._enter()
        if self._is_unread:
            self.text()
        letter = self._letter()
        if not letter:
            self.kind = ""
            if self._scopes:
                scope, start = self._scopes[-1]
                self._refuse_end(
                    f": expected close marker for {_SCOPES[scope]} (start marker at {self._source(start)})"
                )
            return ""
        if letter in "]}":
            return self._leave(letter)
        if self._expects_comma:
            letter = self._past_comma(letter)
        if self._scopes and self._scopes[-1][0] == "{":
            self._read_name(letter)
            self._next_kind = self._read_value(self._past_colon())
            self.kind = "name"
            return "name"
        self.kind = self._read_value(letter)
        return self._enter()

    def text(self) -> str:
        """Return the token's text, as its source has it; of a string, its value, which is read to its end."""
        if self._is_unread:
            self._is_unread = False
            self._value = self._read_string(
                ": was expecting closing quote for a string value", "string value"
            )
        if self.kind == "name":
            return self.name
        return self._value if self.kind in SCALARS else self.kind

    def value(self) -> str | int | float | bool | None:
        """Return the value of a string, a number or a word."""
        text = self.text()
        return text if self.kind == "string" else json.loads(text)

    def refuse(self, reason: str) -> NoReturn:
        """Raise BadEventPattern with the place up to which the text is read."""
        self._refuse(reason, self._place)

    # --- structure ----------------------------------------------------------------------------

    def _enter(self) -> str:
        """Open the token's scope, if it has one; return its kind."""
        self._expects_comma = self.kind not in _CLOSING
        if self.kind in _CLOSING:
            self._scopes.append((self.kind, self._place - 1))
        return self.kind

    def _leave(self, letter: str) -> str:
        scope, start = self._scopes[-1] if self._scopes else ("", 0)
        if _CLOSING.get(scope) != letter:
            expected = _CLOSING["[" if letter == "}" else "{"]
            scope_start = f"{_SCOPES.get(scope, 'root')} starting at {self._source(start)}"
            self._refuse(
                f"Unexpected close marker '{letter}': expected '{expected}' (for {scope_start})",
                self._place - 1,
            )
        self._scopes.pop()
        self._expects_comma = True
        self.kind = letter
        return letter

    def _letter(self) -> str:
        """Return the next letter that is no space, and go past it; "" at the end."""
        space = _SPACE.match(self._text, self._place)
        self._place = space.end() if space else self._place
        letter = self._text[self._place : self._place + 1]
        self._place += len(letter)
        return letter

    def _past_comma(self, letter: str) -> str:
        if not self._scopes:
            return letter
        if letter != ",":
            name = _SCOPES[self._scopes[-1][0]]
            self._refuse_letter(letter, f"was expecting comma to separate {name} entries")
        return self._letter() or self._refuse_between()

    def _past_colon(self) -> str:
        letter = self._letter() or self._refuse_between()
        if letter != ":":
            self._refuse_letter(letter, "was expecting a colon to separate field name and value")
        return self._letter() or self._refuse_between()

    # --- names and values ---------------------------------------------------------------------

    def _read_name(self, letter: str) -> None:
        if letter != '"':
            self._refuse_letter(letter, "was expecting double-quote to start field name")
        self.name = self._read_string(" in field name", "name")

    def _read_value(self, letter: str) -> str:
        """Return the kind of the value that a letter begins."""
        if letter in "{[":
            return letter
        if letter == '"':
            self._is_unread = True
            return "string"
        if letter == "-" or letter in "0123456789":
            return self._read_number(letter)
        self._place -= 1
        word = _WORD.match(self._text, self._place)
        if word is None or not word[0] or letter.isdecimal():
            self._place += 1
            self._refuse_letter(letter, f"expected a valid value {_VALUES}")
        if word[0] not in _WORDS:
            self._place = word.end()
            end = "..." if len(word[0]) > _LONGEST_SHOWN_WORD else ""
            self.refuse(
                f"Unrecognized token '{word[0][:_LONGEST_SHOWN_WORD]}{end}': was expecting {_VALUES}"
            )
        self._place = word.end()
        self._value = word[0]
        return "word"

    def _read_number(self, first: str) -> str:
        start = self._place - 1
        number = _NUMBER.match(self._text, start)
        if number is None:
            letter = self._text[self._place : self._place + 1]
            if not letter:
                self._refuse_end(" in a Number value")
            self._place += 1
            self._refuse_letter(
                letter, "expected digit (0-9) to follow minus sign, for valid numeric value"
            )
        self._place = number.end()
        following = self._text[self._place : self._place + 1]
        if number[0].lstrip("-") == "0" and following.isdecimal():
            self.refuse("Invalid numeric value: Leading zeroes not allowed")
        if following in (".", "e", "E"):
            self._place += 2
            what = "Decimal point" if following == "." else "Exponent indicator"
            self.refuse(
                f"Unexpected character ({_describe(self._text[self._place - 1 : self._place])}) in numeric value:"
                f" {what} not followed by a digit"
            )
        self._value = number[0]
        return "number"

    def _read_string(self, at_end: str, kind: str) -> str:
        """Return the string whose quote was just passed."""
        try:
            value, self._place = _scan_string(self._text, self._place, True)
        except JSONDecodeError as error:
            if error.msg.startswith("Unterminated"):
                self._place = len(self._text)
                self._refuse_end(at_end)
            letter = self._text[error.pos : error.pos + 2]
            if "control" in error.msg:
                self._refuse(
                    f"Illegal unquoted character ({_describe(letter[0])}): has to be escaped using backslash to be"
                    f" included in {kind}",
                    error.pos,
                )
            self._refuse(f"Unrecognized character escape {_describe(letter[-1])}", error.pos + 1)
        return value

    # --- refusals -----------------------------------------------------------------------------

    def _refuse_letter(self, letter: str, reason: str) -> NoReturn:
        """Refuse the letter that was just passed."""
        self._refuse(
            f"Unexpected character ({_describe(letter)}): {reason}",
            self._place - self._letters_back,
        )

    def _refuse_between(self) -> NoReturn:
        self._refuse_end(f" within/between {_SCOPES[self._scopes[-1][0]]} entries")

    def _refuse_end(self, where: str) -> NoReturn:
        self.refuse(f"Unexpected end-of-input{where}")

    def _refuse(self, reason: str, at: int) -> NoReturn:
        raise BadEventPattern(f"{reason}\n at {self._source(at)}")

    def _source(self, at: int) -> str:
        """Return the text and a place in it as Jackson writes them: lines and columns begin at 1."""
        shown = _CONTROL.sub(
            lambda letter: f"\\u{ord(letter[0]):04X}", self._text[:_LONGEST_SHOWN_SOURCE]
        )
        left_out = len(self._text) - _LONGEST_SHOWN_SOURCE
        more = f"[truncated {left_out} chars]" if left_out > 0 else ""
        ends = [one.end() for one in _LINE_END.finditer(self._text, 0, at)]
        line = self._text[ends[-1] if ends else 0 : at]
        column = len(line.encode("utf-16-le", "surrogatepass")) // 2 + 1
        return f'[Source: (String)"{shown}"{more}; line: {len(ends) + 1}, column: {column}]'


def _describe(letter: str) -> str:
    """Return how Jackson names a letter."""
    code = ord(letter) if letter else 0
    if _CONTROL.match(letter) or letter in "\n\r":
        return f"(CTRL-CHAR, code {code})"
    return f"'{letter}' (code {code}{f' / 0x{code:x}' if code > 255 else ''})"


def explain_syntax(text: str, *, is_old: bool = False) -> str:
    """Return why a text is not JSON, in Jackson's words; "" when it is."""
    tokens = Tokens(text, is_old=is_old)
    try:
        while tokens.next():
            tokens.text()
    except BadEventPattern as error:
        return str(error)
    return ""
