"""Fills the input templates of EventBridge's rules and pipes, each placeholder once.

A template is JSON or free text. In JSON, a value takes the place of a placeholder as JSON, and within a string's quotes
as text. In free text, strings are inserted bare. Observed for rules (LocalStack's recordings from AWS of templates
within quotes); documented for pipes: eb-pipes-input-transformation.html of
https://docs.aws.amazon.com/eventbridge/latest/userguide/.

Evaluates JSON paths of EventBridge's input transformers, in time linear in the event's size. Pure functions.

This is EventBridge's part of JSONPath: dots, names with dashes, indices and wildcards
(https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html, documented). moto's library
also has filters with regular expressions and recursive descents, which one event can make run for ever.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

from headrace.core.evaluation import Budget

# A placeholder without quotes is replaced by this, to see whether a template is JSON.
_ANY_VALUE = "0"
Piece = tuple[str, str, bool]


def fill(
    template: str,
    is_placeholder: Callable[[str], bool],
    value_of: Callable[[str], Any],
    *,
    in_quotes: Callable[[Any], str],
    count: Callable[[int], None],
) -> str:
    """Return a template with each `<name>` replaced, once.

    Args:
        template: the text.
        is_placeholder: whether a name between `<` and `>` is a placeholder; all else stays as it is.
        value_of: the value of a placeholder; an empty string for none.
        in_quotes: the text of a value that is not a string, within a string's quotes.
        count: is told the length of each text that takes a placeholder's place; it raises what a caller expects for
            too much.
    """
    pieces = list(_pieces(template, is_placeholder))
    is_text = not _is_json(pieces)
    texts: list[str] = []
    for text, name, is_quoted in pieces:
        texts.append(text)
        if name:
            texts.append(_text_of(value_of(name), is_text, is_quoted, in_quotes))
            count(len(texts[-1]))
    return "".join(texts)


def compact(value: Any) -> str:
    """Return a value as JSON without spaces, as AWS writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _text_of(value: Any, is_text: bool, is_quoted: bool, in_quotes: Callable[[Any], str]) -> str:
    if isinstance(value, str):
        if is_text and not is_quoted:
            return value
        shown = json.dumps(value, ensure_ascii=False)
        return shown[1:-1] if is_quoted else shown
    return in_quotes(value) if is_quoted else compact(value)


def _pieces(template: str, is_placeholder: Callable[[str], bool]) -> Iterator[Piece]:
    """Yield (text, name of the placeholder after it, whether that is within quotes); the last name is empty."""
    at = start = 0
    is_quoted = False
    while at < len(template):
        letter = template[at]
        if letter == "\\":
            at += 1
        elif letter == '"':
            is_quoted = not is_quoted
        elif letter == "<" and (end := template.find(">", at)) > 0:
            name = template[at + 1 : end]
            if is_placeholder(name):
                yield template[start:at], name, is_quoted
                at, start = end, end + 1
        at += 1
    yield template[start:], "", False


def _is_json(pieces: list[Piece]) -> bool:
    """Whether a template is JSON once its placeholders are, several texts after each other included."""
    text = "".join(
        f"{before}{_ANY_VALUE if name and not is_quoted else ''}"
        for before, name, is_quoted in pieces
    )
    decoder = json.JSONDecoder(strict=False)
    at = 0
    try:
        while text[at:].strip():
            at += len(text[at:]) - len(text[at:].lstrip())
            _, at = decoder.raw_decode(text, at)
    except (ValueError, RecursionError):
        return False
    return True


MOST_CHARACTERS = 1024
_BYTES_A_CHILD = 16
ANY = None
Step = str | int | None


class NoValue(LookupError):
    """The path matches nothing, or EventBridge does not accept it."""


def first_value(path: str, document: Any, budget: Budget | None = None) -> Any:
    """Return the first value that a path matches. Raises NoValue; TooMuch when there is a budget."""
    steps = _steps(path)
    pending: list[tuple[Any, int]] = [(document, 0)]
    while pending:
        value, depth = pending.pop()
        if budget is not None:
            budget.step()
        if depth == len(steps):
            return value
        # Pushed in reverse, so that the first child is popped first.
        children = _children(value, steps[depth])
        if budget is not None:
            budget.read(_BYTES_A_CHILD * len(children))
        pending += [(child, depth + 1) for child in reversed(children)]
    raise NoValue(path)


def fill_paths(parameters: Any, event: Any, budget: Budget) -> Any:
    """Return a target's parameters with the event's values in place of their paths, such as `$.detail.id`.

    Raises NoValue with the path that has none; TooMuch.
    """
    if isinstance(parameters, dict):
        members = cast("dict[str, Any]", parameters)
        return {name: fill_paths(value, event, budget) for name, value in members.items()}
    if isinstance(parameters, list):
        return [fill_paths(value, event, budget) for value in cast("list[Any]", parameters)]
    if not isinstance(parameters, str) or not parameters.startswith("$."):
        return parameters
    value = first_value(parameters, event, budget)
    if value is None:
        raise NoValue(parameters)
    text = value if isinstance(value, str) else compact(value)
    budget.make(len(text))
    return text


def _children(value: Any, step: Step) -> list[Any]:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if step is ANY:
            return list(members.values())
        return [members[step]] if isinstance(step, str) and step in members else []
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if step is ANY:
            return items
        return [items[step]] if isinstance(step, int) and step < len(items) else []
    return []


@functools.lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[Step, ...]:
    """Return the steps of a path such as `$.name['name'][0][*].*`. Raises NoValue."""
    if not path.startswith("$") or len(path) > MOST_CHARACTERS:
        raise NoValue(path)
    steps: list[Step] = []
    at = 1
    while at < len(path):
        if path[at] == ".":
            end = at + 1
            while end < len(path) and path[end] not in ".[":
                end += 1
            name = path[at + 1 : end]
            if not name or "`" in name:
                raise NoValue(path)
            steps.append(ANY if name == "*" else name)
        elif path[at] == "[":
            end = path.find("]", at) + 1
            if not end:
                raise NoValue(path)
            steps.append(_parse_brackets(path[at + 1 : end - 1], path))
        else:
            raise NoValue(path)
        at = end
    return tuple(steps)


def _parse_brackets(inner: str, path: str) -> Step:
    if inner == "*":
        return ANY
    if inner.isascii() and inner.isdigit() and len(inner) < 10:
        return int(inner)
    if len(inner) > 2 and inner[0] == inner[-1] and inner[0] in "'\"":
        return inner[1:-1]
    raise NoValue(path)
