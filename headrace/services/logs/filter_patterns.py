"""CloudWatch Logs' filter patterns: terms, JSON and space-delimited fields, with wildcards and regular expressions.

Documented: "Filter pattern syntax for metric filters, subscription filters, filter log events, and Live Tail" in the
user guide; the fields that a match extracts: its version of 2019. Observed by others: the sentences of refusals
(aws-cdk issue 16278, serverless-plugin-log-subscription issue 47). Assumed: a field that is missing, an array or an
object meets no comparison, not even `!=`; the last field of a space-delimited pattern holds the rest of the line.

Bounded: a pattern has at most 1,024 characters; its regular expressions are matched as all of a client's, within the
steps of a `MatchingBudget`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.patterns import MatchingBudget, PatternRefused, java_pattern
from headrace.core.values import parse_json

MOST_CHARACTERS = 1024
_MOST_REGEXES = 2  # documented: of a pattern (PutMetricFilter)
_MOST_WILDCARDS = 3
_DEEPEST = 100
_REGEX_CHARACTERS = re.compile(r"[A-Za-z0-9:_#=@/;,\-^$?\[\]{}|\\*+. ]*")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_SCALARS = (str, int, float, bool)
# What the matches of one request may spend.
_BUDGET: ContextVar[MatchingBudget] = ContextVar("filter_patterns_budget")


class InvalidFilterPattern(ValueError):
    """A text is no filter pattern; the message is AWS's sentence."""


@dataclass(frozen=True, slots=True)
class FilterPattern:
    """A parsed pattern. Immutable; thread-safe.

    Attributes:
        kind: terms, json or fields.
        regexes: how many regular expressions it has.
        extract: as `match`, of a message within the current budget.
    """

    kind: str
    regexes: int
    extract: Callable[[str], Mapping[str, str] | None]

    def match(self, message: str, budget: MatchingBudget) -> Mapping[str, str] | None:
        """Return what a message's match extracts, by selector (`$.latency`, `$bytes`, `$3`); None without a match.

        Raises MatchTooLong.
        """
        token = _BUDGET.set(budget)
        try:
            return self.extract(message)
        finally:
            _BUDGET.reset(token)


@functools.lru_cache(maxsize=512)
def parse_filter_pattern(text: str) -> FilterPattern:
    """Parse a pattern. Raises InvalidFilterPattern."""
    stripped = text.strip()
    if len(text) > MOST_CHARACTERS:
        raise InvalidFilterPattern("Invalid filter pattern")
    if stripped.startswith("{"):
        return _JsonParser(stripped).parse()
    if stripped.startswith("["):
        return _FieldsParser(stripped).parse()
    return _parse_terms(stripped)


class _Scanner:
    """A text and a position in it."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.regexes = 0

    def peek(self, *texts: str) -> str:
        """Return the first of some texts that comes next, after blanks; empty when none does."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return next((text for text in texts if self.text.startswith(text, self.at)), "")

    def take(self, *texts: str) -> str:
        """Go past the first of some texts that comes next; empty when none does."""
        text = self.peek(*texts)
        self.at += len(text)
        return text

    def need(self, *texts: str) -> str:
        """Go past one of some texts. Raises InvalidFilterPattern."""
        return self.take(*texts) or self.fail()

    def take_while(self, belongs: Callable[[str], bool]) -> str:
        """Go past the characters that belong, and return them."""
        start = self.at
        while self.at < len(self.text) and belongs(self.text[self.at]):
            self.at += 1
        return self.text[start : self.at]

    def quoted(self) -> str:
        """Go past a text in double quotation marks, at whose first the scanner is; a backslash escapes both."""
        value: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\"):
                self.at += 1
                character = self.text[self.at]
            elif character == '"':
                self.at += 1
                return "".join(value)
            value.append(character)
            self.at += 1
        return self.fail()

    def regex(self) -> Callable[[str], bool]:
        """Go past `%...%`, at whose first the scanner is."""
        end = self.text.find("%", self.at + 1)
        pattern = self.text[self.at + 1 : end]
        if end < 0 or not pattern or not _REGEX_CHARACTERS.fullmatch(pattern):
            raise InvalidFilterPattern(f"Invalid character(s) in term '{pattern}'")
        self.at, self.regexes = end + 1, self.regexes + 1
        try:
            # Java does not know `{,n}`.
            anywhere = java_pattern(rf"[\s\S]*(?:{pattern.replace('{,', '{0,')})[\s\S]*")
        except PatternRefused:
            return self.fail()
        return lambda text: anywhere.matches(text, _BUDGET.get())

    def value(self, ends: str) -> tuple[str, Callable[[str], bool]]:
        """Go past a comparison's right side; return its text and what it says of a value's text."""
        self.peek()
        following = self.text[self.at : self.at + 1]
        if following == "%":
            return "", self.regex()
        is_quoted = following == '"'
        text = (
            self.quoted()
            if is_quoted
            else self.take_while(lambda c: not c.isspace() and c not in ends)
        )
        if not text and not is_quoted:
            self.fail()
        return ("" if is_quoted else text), _text_test(text)

    def condition(self, operator: str, ends: str) -> Callable[[str], bool]:
        """Go past a comparison's right side; return what the comparison says of a value's text."""
        number, is_same = self.value(ends)
        limit = float(number) if _NUMBER.fullmatch(number) else None
        if operator in ("=", "!="):

            def equals(text: str) -> bool:
                given = _number(text) if limit is not None else None
                return given == limit if given is not None else is_same(text)

            return equals if operator == "=" else lambda text: not equals(text)
        if limit is None:
            return self.fail()
        compare = _ORDERS[operator]
        return lambda text: (given := _number(text)) is not None and compare(given, limit)

    def finish(
        self, kind: str, extract: Callable[[str], Mapping[str, str] | None]
    ) -> FilterPattern:
        """Return the pattern, when the text ends here. Raises InvalidFilterPattern."""
        if self.peek() or self.at < len(self.text) or self.regexes > _MOST_REGEXES:
            self.fail()
        return FilterPattern(kind, self.regexes, extract)

    def fail(self) -> Any:
        """Raises InvalidFilterPattern."""
        raise InvalidFilterPattern("Invalid filter pattern")


_ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_OPERATORS = ("!=", ">=", "<=", "=", ">", "<")


def _number(text: str) -> float | None:
    return float(text) if len(text) < 400 and _NUMBER.fullmatch(text) else None


def _text_test(wanted: str) -> Callable[[str], bool]:
    """Return a comparison with a text; a star at its start or its end stands for any characters."""
    starts, ends = wanted.endswith("*"), wanted.startswith("*") and len(wanted) > 1
    core = wanted[1 if ends else 0 : -1 if starts else None]
    if starts and ends:
        return lambda text: core in text
    if starts:
        return lambda text: text.startswith(core)
    if ends:
        return lambda text: text.endswith(core)
    return lambda text: text == core


# --- terms ---------------------------------------------------------------------------------------


def _parse_terms(text: str) -> FilterPattern:
    """All terms of a message; with `?` before each, any of them; without those that have `-` before them.

    Documented: beside other terms, those with `?` have no effect.
    """
    scanner = _Scanner(text)
    required: list[Callable[[str], bool]] = []
    optional: list[Callable[[str], bool]] = []
    excluded: list[Callable[[str], bool]] = []
    while scanner.peek() or scanner.at < len(text):
        group = {"?": optional, "-": excluded, "": required}[scanner.take("?", "-")]
        scanner.peek()
        following = text[scanner.at : scanner.at + 1]
        if following == "%":
            group.append(scanner.regex())
            continue
        term = (
            scanner.quoted()
            if following == '"'
            else _plain_term(scanner.take_while(lambda c: not c.isspace() and c != '"'))
        )
        if term.strip():
            group.append(functools.partial(_contains, term))

    def match(message: str) -> Mapping[str, str] | None:
        if any(test(message) for test in excluded):
            return None
        if required or excluded:
            return {} if all(test(message) for test in required) else None
        return {} if not optional or any(test(message) for test in optional) else None

    return scanner.finish("terms", match)


def _contains(term: str, message: str) -> bool:
    return term in message


def _plain_term(term: str) -> str:
    # Documented: other characters need double quotation marks.
    if not term or not all(c.isalnum() or c == "_" for c in term):
        raise InvalidFilterPattern(f"Invalid character(s) in term '{term}'")
    return term


# --- JSON ----------------------------------------------------------------------------------------

_Test = Callable[[Any], bool]
_ANY = object()  # any element or any member
_SELECTOR_CHARACTERS = re.compile(r"[A-Za-z0-9_\-]")


class _JsonParser(_Scanner):
    """`{ $.a = 1 && ($.b[0].c != "x*" || $.d NOT EXISTS) }`: parentheses before `&&` before `||`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.selectors: dict[str, list[Any]] = {}
        self.wildcards = 0
        self.depth = 0

    def parse(self) -> FilterPattern:
        self.need("{")
        test = self.alternatives()
        self.need("}")
        selectors = self.selectors

        def match(message: str) -> Mapping[str, str] | None:
            try:
                event = parse_json(message)
            except ValueError:
                return None
            if not isinstance(event, (dict, list)) or not test(event):
                return None
            return {
                selector: text
                for selector, path in selectors.items()
                for text in [next(_texts(event, path), None)]
                if text is not None
            }

        return self.finish("json", match)

    def alternatives(self) -> _Test:
        tests = [self.conjunction()]
        while self.take("||"):
            tests.append(self.conjunction())
        return tests[0] if len(tests) == 1 else lambda event: any(test(event) for test in tests)

    def conjunction(self) -> _Test:
        tests = [self.primary()]
        while self.take("&&"):
            tests.append(self.primary())
        return tests[0] if len(tests) == 1 else lambda event: all(test(event) for test in tests)

    def primary(self) -> _Test:
        if self.take("("):
            self.depth += 1
            if self.depth > _DEEPEST:
                self.fail()
            test = self.alternatives()
            self.need(")")
            self.depth -= 1
            return test
        path = self.selector()
        if self.take("NOT"):
            self.need("EXISTS")
            return lambda event: next(_nodes(event, path), None) is None
        if self.take("IS"):
            wanted = {"NULL": None, "TRUE": True, "FALSE": False}[
                self.need("NULL", "TRUE", "FALSE")
            ]
            return lambda event: any(node[0] is wanted for node in _nodes(event, path))
        holds = self.condition(self.need(*_OPERATORS), "()&|{}")
        return lambda event: any(holds(text) for text in _texts(event, path))

    def selector(self) -> list[Any]:
        """Go past `$.a.b[0]`, `$.['a.b']`, `$.a[*]`, `$.*`."""
        self.need("$")
        start = self.at - 1
        path: list[Any] = []
        while True:
            if self.text.startswith(".['", self.at) or self.text.startswith("['", self.at):
                end = self.text.find("']", self.at)
                if end < 0:
                    self.fail()
                path.append(self.text[self.text.index("'", self.at) + 1 : end])
                self.at = end + 2
            elif self.text.startswith("[", self.at):
                end = self.text.find("]", self.at)
                index = self.text[self.at + 1 : end] if end > 0 else ""
                if index != "*" and not (index.isascii() and index.isdigit() and len(index) < 10):
                    self.fail()
                path.append(_ANY if index == "*" else int(index))
                self.at = end + 1
            elif self.text.startswith(".", self.at):
                self.at += 1
                if self.text.startswith("*", self.at):
                    self.at += 1
                    path.append(_ANY)
                else:
                    name = self.take_while(lambda c: bool(_SELECTOR_CHARACTERS.match(c)))
                    path.append(name or self.fail())
            else:
                break
        anys = sum(part is _ANY for part in path)
        self.wildcards += anys
        if not path or anys > 1 or self.wildcards > _MOST_WILDCARDS:
            self.fail()
        self.selectors[self.text[start : self.at]] = path
        return path


def _nodes(event: Any, path: list[Any]) -> Iterator[tuple[Any]]:
    """Yield the values at a path, each in a tuple: None is one, too."""
    nodes: list[Any] = [event]
    for part in path:
        following: list[Any] = []
        for node in nodes:
            if part is _ANY:
                following += _children(node)
            elif isinstance(part, int):
                following += _children(node)[part : part + 1] if isinstance(node, list) else []
            elif isinstance(node, dict) and part in node:
                following.append(node[part])
        nodes = following
    yield from ((node,) for node in nodes)


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return [*cast("dict[str, Any]", node).values()]
    return cast("list[Any]", node) if isinstance(node, list) else []


def _texts(event: Any, path: list[Any]) -> Iterator[str]:
    """Yield the texts of the strings, numbers and booleans at a path."""
    for (node,) in _nodes(event, path):
        if isinstance(node, _SCALARS):
            yield node if isinstance(node, str) else json.dumps(node)


def select_text(selector: str, message: str) -> str | None:
    """Return the text at a JSON selector of a message; None when there is none, or the selector is not one."""
    parser = _JsonParser(selector.strip())
    try:
        path = parser.selector()
        return next(_texts(json.loads(message), path), None)
    except (ValueError, RecursionError):
        return None


# --- space-delimited fields ----------------------------------------------------------------------

_FIELD = re.compile(r'\[([^\]]*)\]|"([^"]*)"|(\S+)')
_FIELD_AFTER_BRACKETS = re.compile(r'"([^"]*)"|(\S+)')


def _find_fields(message: str) -> Iterator[re.Match[str]]:
    """Yield a line's fields, in time proportional to it: where no bracket closes, none is looked for."""
    at, last_bracket = 0, message.rfind("]")
    while field := (_FIELD if at <= last_bracket else _FIELD_AFTER_BRACKETS).search(message, at):
        yield field
        at = field.end()


class _FieldsParser(_Scanner):
    """`[ip, ..., status = 4* || status = 5*, bytes]`."""

    def parse(self) -> FilterPattern:
        self.need("[")
        names: list[str] = []
        tests: list[Callable[[str], bool] | None] = []
        while True:
            if self.take("..."):
                if "..." in names:
                    self.fail()
                names.append("...")
                tests.append(None)
            else:
                name, test = self.field()
                names.append(name)
                tests.append(test)
            if self.need(",", "]") == "]":
                break
        return self.finish("fields", _match_fields(names, tests))

    def field(self) -> tuple[str, Callable[[str], bool] | None]:
        name = self.name()
        if not self.peek(*_OPERATORS):
            return name, None
        alternatives: list[list[Callable[[str], bool]]] = [[]]
        while True:
            alternatives[-1].append(self.condition(self.need(*_OPERATORS), ",]&|()"))
            joint = self.take("&&", "||")
            if not joint:
                break
            if joint == "||":
                alternatives.append([])
            if self.name() != name:
                self.fail()
        return name, lambda text: any(all(test(text) for test in tests) for tests in alternatives)

    def name(self) -> str:
        self.peek()
        return self.take_while(lambda c: c.isalnum() or c in "_-")


def _match_fields(
    names: list[str], tests: list[Callable[[str], bool] | None]
) -> Callable[[str], Mapping[str, str] | None]:
    gap = names.index("...") if "..." in names else None
    fields_count = len(names) - (gap is not None)

    def match(message: str) -> Mapping[str, str] | None:
        found = list(_find_fields(message))
        values = [next(group for group in one.groups() if group is not None) for one in found]
        if len(values) < fields_count:
            return None
        if gap is None:
            count, slots = fields_count, [*range(fields_count)]
            if len(values) > count:
                values = [*values[: count - 1], message[found[count - 1].start() :].rstrip()]
        else:
            after = len(names) - gap - 1
            slots = [*range(gap), gap, *range(len(values) - after, len(values))]
        extracted = {f"${number}": value for number, value in enumerate(values, 1)}
        for name, test, slot in zip(names, tests, slots, strict=True):
            if name == "...":
                continue
            if test is not None and not test(values[slot]):
                return None
            if name:
                extracted[f"${name}"] = extracted.pop(f"${slot + 1}")
        return extracted

    return match
