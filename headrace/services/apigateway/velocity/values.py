"""The values of Velocity templates: how they are written as text, and the methods that templates can call on them."""

# The methods of JSON values take any JSON value.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.services.apigateway.velocity.expressions import TemplateError

# Documented: the largest payload of API Gateway is 10 MB.
MOST_CHARACTERS = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Members:
    """An object of which templates can use the listed properties and methods only.

    Attributes:
        properties: the properties: values, or functions that return the value.
        methods: the methods, which get the values of the arguments.
        text: the object as text.
    """

    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])
    methods: Mapping[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    text: str = ""


def text_of(value: Any) -> str:
    """Return a value as Java writes it: an object as `{a=1}`, a list as `[1, 2]`. Raises TemplateError."""
    parts: list[str] = []
    _write(value, parts, [MOST_CHARACTERS])
    return "".join(parts)


def _write(value: Any, parts: list[str], left: list[int]) -> None:
    """Write a value of at most `left` characters: nested lists can have a text that is larger than the memory."""
    if isinstance(value, dict):
        parts.append("{")
        for at, (key, each) in enumerate(cast("dict[str, Any]", value).items()):
            parts.append(f"{', ' if at else ''}{key}=")
            _count(left, len(parts[-1]))
            _write(each, parts, left)
        parts.append("}")
    elif isinstance(value, list):
        parts.append("[")
        for at, each in enumerate(cast("list[Any]", value)):
            if at:
                parts.append(", ")
            _write(each, parts, left)
        parts.append("]")
    elif isinstance(value, str):
        parts.append(value)
    elif value is None or isinstance(value, bool):
        parts.append({None: "null", True: "true", False: "false"}[value])
    else:
        parts.append(value.text if isinstance(value, Members) else str(value))
    # A part takes more memory than its characters.
    _count(left, len(parts[-1]) + 16)


def _count(left: list[int], characters: int) -> None:
    left[0] -= characters
    if left[0] < 0:
        raise TemplateError(f"a text in the template has more than {MOST_CHARACTERS} characters")


def joined(left: Any, right: Any) -> str:
    """Return two values as one text. Raises TemplateError when it gets too long."""
    text = f"{text_of(left)}{text_of(right)}"
    _count([MOST_CHARACTERS], len(text))
    return text


def are_equal(left: Any, right: Any) -> bool:
    """Whether two values are equal; values of different types are compared as text."""
    if left is None or right is None:
        return left is right
    if is_number(left) and is_number(right):
        return bool(left == right)
    return text_of(left) == text_of(right)


def is_number(value: Any) -> bool:
    """Whether a value is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def method(value: Any, name: str, arguments: list[Any]) -> Any:
    """Call a method of a value. Raises TemplateError when templates have no such method."""
    table: Mapping[str, Callable[..., Any]]
    if isinstance(value, Members):
        table, arguments = value.methods, arguments
    else:
        kind = next((kind for kind in _METHODS if isinstance(value, kind)), object)
        table, arguments = _METHODS[kind], [value, *arguments]
    function = table.get(name)
    if function is None:
        raise TemplateError(f"headrace's mapping templates have no method {name}")
    try:
        return function(*arguments)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise TemplateError(f"{name}: {error}") from error


def _add(items: list[Any], *rest: Any) -> bool:
    items.insert(rest[0], rest[1]) if len(rest) == 2 else items.append(rest[0])
    return True


def _put(members: dict[str, Any], key: Any, value: Any) -> Any:
    before = members.get(text_of(key))
    members[text_of(key)] = value
    return before


def _put_all(members: dict[str, Any], others: dict[str, Any]) -> None:
    members.update(others)


def _replaced(text: str, old: str, new: str) -> str:
    _count([MOST_CHARACTERS], len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _replaced_all(text: str, pattern: str, new: str) -> str:
    """Implement Java's replaceAll for a regular expression that is plain text; other ones raise TemplateError."""
    plain, at = "", 0
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
        plain, at = plain + char, at + 1
    return _replaced(text, plain, new.replace("\\", ""))


def _place(items: list[Any], item: Any) -> int:
    return next((at for at, each in enumerate(items) if are_equal(each, item)), -1)


def _entries(members: dict[str, Any]) -> list[Members]:
    return [
        Members(
            {"key": key, "value": value},
            {"getKey": lambda key=key: key, "getValue": lambda value=value: value},
            f"{key}={text_of(value)}",
        )
        for key, value in members.items()
    ]


def _at(items: list[Any], index: Any) -> Any:
    return items[index] if isinstance(index, int) and 0 <= index < len(items) else None


_ANY: Mapping[str, Callable[..., Any]] = {
    "toString": text_of,
    "equals": are_equal,
}
_METHODS: Mapping[type, Mapping[str, Callable[..., Any]]] = {
    str: {
        **_ANY,
        "length": len,
        "isEmpty": lambda text: not text,
        "substring": lambda text, first, last=None: text[first:last],
        "replace": _replaced,
        "replaceAll": _replaced_all,
        "toUpperCase": str.upper,
        "toLowerCase": str.lower,
        "trim": str.strip,
        "contains": lambda text, part: part in text,
        "startsWith": str.startswith,
        "endsWith": str.endswith,
        "indexOf": str.find,
        "lastIndexOf": str.rfind,
        "concat": joined,
        "equalsIgnoreCase": lambda text, other: text.lower() == str(other).lower(),
        "split": lambda text, separator: text.split(separator.replace("\\", "")),
    },
    list: {
        **_ANY,
        "size": len,
        "isEmpty": lambda items: not items,
        "get": _at,
        "add": _add,
        "contains": lambda items, item: _place(items, item) >= 0,
        "indexOf": _place,
    },
    dict: {
        **_ANY,
        "size": len,
        "isEmpty": lambda members: not members,
        "get": lambda members, key: members.get(text_of(key)),
        "put": _put,
        "putAll": _put_all,
        "containsKey": lambda members, key: text_of(key) in members,
        "keySet": list,
        "values": lambda members: list(members.values()),
        "entrySet": _entries,
        "remove": lambda members, key: members.pop(text_of(key), None),
    },
    object: _ANY,
}
