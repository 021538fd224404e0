"""The values of Velocity templates: how they are written as text, and the methods that templates can call on them."""

# The methods of JSON values take any JSON value.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.core.evaluation import Budget, text_size
from headrace.core.patterns import MatchingBudget, MatchTooLong, PatternRefused, java_pattern
from headrace.services.apigateway.velocity.parser import TemplateError

# Documented: the largest payload of API Gateway is 10 MB.
MOST_CHARACTERS = 10 * 1024 * 1024
# What a member of a list or an object takes beside its text.
MEMBER_BYTES = 64
# What a match takes from a template's budget beside its texts, and its time: the budget must see a loop of matches.
_PATTERN_STEPS = 1000
_MATCHED_WITHIN_S = 0.1


@dataclass(frozen=True, slots=True)
class Members:
    """An object of which templates can use the listed properties and methods only.

    Attributes:
        properties: the properties: values, or functions that return the value.
        methods: the methods, which get the values of the arguments.
        text: the object as text, or a function that returns it.
    """

    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])
    methods: Mapping[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    text: str | Callable[[], str] = ""


def text_of(value: Any, budget: Budget) -> str:
    """Return a value as Java writes it: an object as `{a=1}`, a list as `[1, 2]`. Raises TemplateError, TooMuch."""
    if isinstance(value, str):
        budget.step()
        return value
    parts: list[str] = []
    _write(value, parts, [MOST_CHARACTERS], budget)
    return "".join(parts)


def _write(value: Any, parts: list[str], left: list[int], budget: Budget) -> None:
    """Write a value of at most `left` characters: nested lists can have a text that is larger than the memory."""
    if isinstance(value, dict):
        parts.append("{")
        for at, (key, element) in enumerate(cast("dict[str, Any]", value).items()):
            parts.append(f"{', ' if at else ''}{key}=")
            _count(left, len(parts[-1]), budget)
            _write(element, parts, left, budget)
        parts.append("}")
    elif isinstance(value, list):
        parts.append("[")
        for at, element in enumerate(cast("list[Any]", value)):
            if at:
                parts.append(", ")
            _write(element, parts, left, budget)
        parts.append("]")
    elif isinstance(value, str):
        parts.append(value)
    elif value is None or isinstance(value, bool):
        parts.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, Members):
        parts.append(value.text() if callable(value.text) else value.text)
    else:
        parts.append(str(value))
    _count(left, len(parts[-1]), budget)


def _count(left: list[int], characters: int, budget: Budget) -> None:
    left[0] -= characters
    if left[0] < 0:
        raise TemplateError(f"a text in the template has more than {MOST_CHARACTERS} characters")
    # A part takes more memory than its characters, and is written twice.
    budget.make(16 + 2 * characters)


def join_texts(left: Any, right: Any, budget: Budget) -> str:
    """Return two values as one text. Raises TemplateError when it gets too long, and TooMuch."""
    parts = text_of(left, budget), text_of(right, budget)
    _make_text(len(parts[0]) + len(parts[1]), budget, *parts)
    return "".join(parts)


def _make_text(characters: int, budget: Budget, *of: str) -> None:
    """Count a text that is made of others."""
    if characters > MOST_CHARACTERS:
        raise TemplateError(f"a text in the template has more than {MOST_CHARACTERS} characters")
    budget.make(characters if all(map(str.isascii, of)) else 4 * characters)


def are_equal(left: Any, right: Any, budget: Budget) -> bool:
    """Whether two values are equal; values of different types are compared as text."""
    if left is None or right is None:
        return left is right
    if is_number(left) and is_number(right):
        return bool(left == right)
    texts = text_of(left, budget), text_of(right, budget)
    budget.read(min(len(texts[0]), len(texts[1])))
    return texts[0] == texts[1]


def is_number(value: Any) -> bool:
    """Whether a value is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def method(value: Any, name: str, arguments: list[Any], budget: Budget) -> Any:
    """Call a method of a value. Raises TemplateError when templates have no such method, and TooMuch."""
    if isinstance(value, Members):
        function = value.methods.get(name)
        call_arguments = arguments
    else:
        kind = next((kind for kind in _METHODS if isinstance(value, kind)), object)
        function = _METHODS[kind].get(name)
        call_arguments = [budget, value, *arguments]
    if function is None:
        raise TemplateError(f"headrace's mapping templates have no method {name}")
    try:
        return function(*call_arguments)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise TemplateError(f"{name}: {error}") from error


# --- of all values ------------------------------------------------------------------------------


def _text(budget: Budget, value: Any) -> str:
    return text_of(value, budget)


def _equals(budget: Budget, value: Any, other: Any) -> bool:
    return are_equal(value, other, budget)


# --- of texts -----------------------------------------------------------------------------------


def _make_reader(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that reads a text."""

    def read(budget: Budget, text: str, *arguments: Any) -> Any:
        budget.read(len(text))
        return function(text, *arguments)

    return read


def _make_change(function: Callable[..., str]) -> Callable[..., Any]:
    """Return a method whose result is a text of the same size, or less."""

    def change(budget: Budget, text: str, *arguments: Any) -> Any:
        budget.make(text_size(text))
        return function(text, *arguments)

    return change


def _replace(budget: Budget, text: str, old: str, new: str) -> str:
    budget.read(len(text))
    _make_text(len(text) + text.count(old) * len(new), budget, text, new)
    return text.replace(old, new)


def _matches(budget: Budget, text: str, pattern: str) -> bool:
    """Implement Java's matches: the whole text fits. Raises TemplateError for a pattern that cannot be used."""
    budget.step(_PATTERN_STEPS)
    budget.read(len(text) + len(pattern))
    try:
        return java_pattern(pattern).matches(text, MatchingBudget(backtracking_s=_MATCHED_WITHIN_S))
    except (PatternRefused, MatchTooLong) as error:
        raise TemplateError(f"the pattern cannot be used: {error}") from error


def _replace_all(budget: Budget, text: str, pattern: str, new: str) -> str:
    """Implement Java's replaceAll for a regular expression that is plain text; other ones raise TemplateError."""
    budget.make(len(pattern))
    plain, at = list[str](), 0
    while at < len(pattern):
        char = pattern[at]
        follows = pattern[at + 1 : at + 2]
        # A backslash before any character but a letter or digit stands for that character.
        if char == "\\" and follows and not follows.isalnum():
            char, at = follows, at + 1
        elif char in "\\^$.|?*+()[]{}":
            raise TemplateError(
                "headrace's mapping templates can replace plain text only, not regular expressions"
            )
        plain.append(char)
        at += 1
    return _replace(budget, text, "".join(plain), new.replace("\\", ""))


def _split(budget: Budget, text: str, separator: str) -> list[str]:
    plain = separator.replace("\\", "")
    budget.read(len(text))
    budget.make(text_size(text) + MEMBER_BYTES * (1 + text.count(plain)))
    return text.split(plain)


# --- of lists and objects -----------------------------------------------------------------------


def _add(budget: Budget, items: list[Any], *rest: Any) -> bool:
    budget.has_shared = True
    budget.make(MEMBER_BYTES)
    if len(rest) == 2:
        budget.read(8 * len(items))
    items.insert(rest[0], rest[1]) if len(rest) == 2 else items.append(rest[0])
    return True


def _put(budget: Budget, members: dict[str, Any], key: Any, value: Any) -> Any:
    budget.has_shared = True
    budget.make(MEMBER_BYTES)
    name = text_of(key, budget)
    before = members.get(name)
    members[name] = value
    return before


def _put_all(budget: Budget, members: dict[str, Any], others: dict[str, Any]) -> None:
    budget.has_shared = True
    budget.make(MEMBER_BYTES * len(others))
    members.update(others)


def _place(budget: Budget, items: list[Any], item: Any) -> int:
    return next((at for at, element in enumerate(items) if are_equal(element, item, budget)), -1)


def _list(budget: Budget, items: Any) -> list[Any]:
    budget.make(8 * len(items))
    return list(items)


def _entries(budget: Budget, members: dict[str, Any]) -> list[Members]:
    # Objects, with functions in them.
    budget.make(16 * MEMBER_BYTES * len(members))
    return [
        Members(
            {"key": key, "value": value},
            {"getKey": lambda key=key: key, "getValue": lambda value=value: value},
            lambda key=key, value=value: f"{key}={text_of(value, budget)}",
        )
        for key, value in members.items()
    ]


def _item_or_none(budget: Budget, items: list[Any], index: Any) -> Any:
    return items[index] if isinstance(index, int) and 0 <= index < len(items) else None


_ANY: Mapping[str, Callable[..., Any]] = {
    "toString": _text,
    "equals": _equals,
}
_METHODS: Mapping[type, Mapping[str, Callable[..., Any]]] = {
    str: {
        **_ANY,
        "length": lambda _, text: len(text),
        "isEmpty": lambda _, text: not text,
        "substring": _make_change(lambda text, first, last=None: text[first:last]),
        "replace": _replace,
        "replaceAll": _replace_all,
        "matches": _matches,
        "toUpperCase": _make_change(str.upper),
        "toLowerCase": _make_change(str.lower),
        "trim": _make_change(str.strip),
        "contains": _make_reader(lambda text, part: part in text),
        "startsWith": _make_reader(str.startswith),
        "endsWith": _make_reader(str.endswith),
        "indexOf": _make_reader(str.find),
        "lastIndexOf": _make_reader(str.rfind),
        "concat": lambda budget, text, other: join_texts(text, other, budget),
        "equalsIgnoreCase": _make_change(lambda text, other: text.lower() == str(other).lower()),
        "split": _split,
    },
    list: {
        **_ANY,
        "size": lambda _, items: len(items),
        "isEmpty": lambda _, items: not items,
        "get": _item_or_none,
        "add": _add,
        "contains": lambda budget, items, item: _place(budget, items, item) >= 0,
        "indexOf": _place,
    },
    dict: {
        **_ANY,
        "size": lambda _, members: len(members),
        "isEmpty": lambda _, members: not members,
        "get": lambda budget, members, key: members.get(text_of(key, budget)),
        "put": _put,
        "putAll": _put_all,
        "containsKey": lambda budget, members, key: text_of(key, budget) in members,
        "keySet": _list,
        "values": lambda budget, members: _list(budget, members.values()),
        "entrySet": _entries,
        "remove": lambda budget, members, key: members.pop(text_of(key, budget), None),
    },
    object: _ANY,
}
