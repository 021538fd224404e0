r"""Reads the text of an intrinsic function, such as `States.Format('it\'s {}', $.name)`.

The grammar is that of https://states-language.net/spec.html (Appendix B), and true and false, which States.JsonMerge
takes. moto's own grammar has no null, loses decimals, ends a text at `\'`, and skips what it cannot read.

Finds the paths and calls of a JSONPath state that are none, as CreateStateMachine does: a path begins with `$`. The
sentences were observed by others (github.com/aws-cloudformation/cfn-lint, issues 4078 and 4085).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from headrace.services.stepfunctions.jsonata_expressions import SCHEMA, Problem

# Documented: https://docs.aws.amazon.com/step-functions/latest/dg/intrinsic-functions.html; each function, and how many
# arguments it takes at least and at most (None: any number).
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "Format": (1, None), "StringToJson": (1, 1), "JsonToString": (1, 1), "Array": (0, None),
    "ArrayPartition": (2, 2), "ArrayContains": (2, 2), "ArrayRange": (3, 3), "ArrayGetItem": (2, 2),
    "ArrayLength": (1, 1), "ArrayUnique": (1, 1), "Base64Encode": (1, 1), "Base64Decode": (1, 1), "Hash": (2, 2),
    "JsonMerge": (3, 3), "MathRandom": (2, 3), "MathAdd": (2, 2), "StringSplit": (2, 2), "UUID": (0, 0),
}  # fmt: skip
# Documented.
MOST_NESTED = 10
_CONSTANTS = {"null": None, "true": True, "false": False}
_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"States\.(\w+)\s*\(")
# A backslash before any other character is refused, as in `\\n` (observed by others, of Terraform's validation).
_STRING = re.compile(r"'((?:[^'\\]|\\[\\'{}])*)'")
# With a bound: Python does not read whole numbers of more than 4,300 digits.
_NUMBER = re.compile(r"-?[0-9]{1,1000}(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_CONSTANT = re.compile(r"(?:null|true|false)\b")
# A part of a path: a filter or name in brackets, in which texts may hold any character, or a piece of text.
_PATH = re.compile(
    r"\$(?:\[(?:[^\]'\"\[]|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\])*\]|[^\s,()\[\]'])*",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\([\\'{}])")


class NoCall(ValueError):
    """A text is no intrinsic function."""

    def __init__(self, unread: str) -> None:
        super().__init__(f"The value is not a valid intrinsic function call at '{unread}'")


class Text(NamedTuple):
    r"""A text in quotes, `written` with its escapes: States.Format tells `\{\}` from `{}`."""

    written: str

    @property
    def value(self) -> str:
        """The text that is meant."""
        return _ESCAPED.sub(r"\1", self.written)


class Path(NamedTuple):
    """A path of the input (`$.`), of the context object (`$$.`), or a variable (`$name`)."""

    text: str


class Call(NamedTuple):
    """A function with its arguments."""

    name: str
    arguments: tuple[Argument, ...]


Argument = Call | Path | Text | int | float | bool | None


def parse_call(text: str) -> Call:
    """Return the call that a text is.

    Raises:
        NoCall: it is none.
    """
    call, end = _call(text, 0, 1)
    if end != len(text):
        raise NoCall(text[end:])
    return call


def _call(text: str, start: int, depth: int) -> tuple[Call, int]:
    match = _NAME.match(text, start)
    if match is None or match[1] not in FUNCTIONS or depth > MOST_NESTED:
        raise NoCall(text[start:])
    place, found = _after_space(text, match.end()), list[Argument]()
    while not text.startswith(")", place):
        if found:
            if not text.startswith(",", place):
                raise NoCall(text[place:])
            place = _after_space(text, place + 1)
        argument, place = _argument(text, place, depth)
        found.append(argument)
        place = _after_space(text, place)
    least, most = FUNCTIONS[match[1]]
    if len(found) < least or (most is not None and len(found) > most):
        raise NoCall(text[start:])
    return Call(match[1], tuple(found)), place + 1


def _argument(text: str, start: int, depth: int) -> tuple[Argument, int]:
    if text.startswith("States.", start):
        return _call(text, start, depth + 1)
    if match := _PATH.match(text, start):
        return Path(match[0]), match.end()
    if match := _STRING.match(text, start):
        return Text(match[1]), match.end()
    if match := _CONSTANT.match(text, start):
        return _CONSTANTS[match[0]], match.end()
    if match := _NUMBER.match(text, start):
        number = (float if match[1] or match[2] else int)(match[0])
        # JSON has no infinity.
        if abs(number) != math.inf:
            return number, match.end()
    raise NoCall(text[start:])


def _after_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return start if match is None else match.end()


_TEMPLATES = ("Parameters", "ResultSelector", "ItemSelector", "Assign", "Credentials")
_PATHS = ("InputPath", "OutputPath", "ResultPath", "ItemsPath")


def problems_of_paths(state: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """Return the problems of a JSONPath state's payload templates and paths."""
    for name in _TEMPLATES:
        yield from _template(state.get(name), f"{at}/{name}")
    for owner in ("ItemReader", "ResultWriter", "ItemBatcher"):
        inner = state.get(owner)
        members = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
        for name in ("Parameters", "BatchInput"):
            yield from _template(members.get(name), f"{at}/{owner}/{name}")
    for name in _PATHS:
        path = state.get(name)
        if isinstance(path, str) and not path.startswith("$"):
            yield Problem(SCHEMA, "Value must be a valid JSONPath.", f"{at}/{name}")


def _template(value: Any, at: str) -> Iterator[Problem]:
    if isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _template(item, f"{at}[{number}]")
    for name, item in cast("dict[str, Any]", value).items() if isinstance(value, dict) else ():
        if not name.endswith(".$"):
            yield from _template(item, f"{at}/{name}")
        elif not isinstance(item, str) or not _is_path_or_call(item):
            message = f"The value for the field '{name}' must be a valid JSONPath or a valid intrinsic function call"
            yield Problem(SCHEMA, message, at)


def _is_path_or_call(text: str) -> bool:
    if text.startswith("$"):
        return True
    try:
        parse_call(text)
    except NoCall:
        return False
    return True
