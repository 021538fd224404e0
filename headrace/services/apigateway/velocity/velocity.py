"""Renders templates of the Velocity Template Language (VTL), the language of API Gateway's mapping templates.

A template can use only the values that it is given: JSON values, and objects with listed members (`Members`). It cannot
name an attribute of a Python object. A `Budget` bounds its steps and the size of every value that it makes. Language:
https://velocity.apache.org/engine/1.7/vtl-reference.html (documented). Macros, #parse, #include and #evaluate are not
supported. Pure functions, thread-safe.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.core.evaluation import Budget, TooMuch
from headrace.services.apigateway.velocity.parser import Expression, Node, Parser, TemplateError
from headrace.services.apigateway.velocity.values import (
    MEMBER_BYTES,
    MOST_CHARACTERS,
    Members,
    are_equal,
    is_number,
    join_texts,
    method,
    text_of,
)

__all__ = ["Members", "TemplateError", "render"]

# Documented: https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-execution-service-limits-table.html;
# that a loop just ends there: as Velocity's `directive.foreach.maxloops`, assumed of AWS.
MOST_TEMPLATE_BYTES = 300 * 1024
MOST_ITERATIONS = 1000
MOST_RANGE_NUMBERS = 200_000


def _loop_at(index: int, iterations: int, parent: Any) -> Members:
    """Return what `$foreach` is in an iteration: properties, and the methods that Java has for them."""
    properties = {
        "index": index,
        "count": index + 1,
        "hasNext": index + 1 < iterations,
        "first": index == 0,
        "last": index + 1 == iterations,
        "parent": parent,
    }
    getters = {
        "hasNext": "hasNext", "isFirst": "first", "isLast": "last", "getHasNext": "hasNext",
        "getFirst": "first", "getLast": "last", "getIndex": "index", "getCount": "count",
        "getParent": "parent",
    }  # fmt: skip
    return Members(
        properties,
        {name: functools.partial(properties.__getitem__, read) for name, read in getters.items()},
    )


class _Stop(Exception):
    """`#stop`: rendering ends here."""


class _Break(Exception):
    """`#break`: the innermost loop ends."""


def render(template: str, variables: Mapping[str, Any], budget: Budget | None = None) -> str:
    """Return the rendered template. Raises TemplateError.

    Args:
        template: the template's text.
        variables: the values of its references, by name: JSON values and `Members`. The mapping itself is not changed;
            lists and objects in it may be.
        budget: what the template may use; the functions of `variables` count with the same one. The caller closes it.
    """
    if len(template) > MOST_TEMPLATE_BYTES:
        raise TemplateError(f"the template has more than {MOST_TEMPLATE_BYTES} bytes")
    if budget is None:
        with Budget("") as own:
            return render(template, variables, own)
    try:
        nodes = Parser(template, budget).parse()
        run = _Run(dict(variables), budget)
        with contextlib.suppress(_Stop, _Break):
            run.nodes(nodes)
    except RecursionError:
        raise TemplateError("the template is nested too deeply") from None
    except TooMuch as error:
        raise TemplateError(f"the template asks for too much: {error}") from error
    return "".join(run.parts)


@dataclass(slots=True)
class _Run:
    """One rendering: the variables, and the output so far."""

    variables: dict[str, Any]
    budget: Budget
    parts: list[str] = field(default_factory=list[str])
    size: int = 0

    def nodes(self, nodes: list[Node]) -> None:
        for node in nodes:
            self.node(node)

    def write(self, text: str) -> None:
        self.size += len(text)
        if self.size > MOST_CHARACTERS:
            raise TemplateError(f"the template writes more than {MOST_CHARACTERS} characters")
        # A part takes more memory than its characters.
        self.budget.make(64)
        self.parts.append(text)

    def node(self, node: Node) -> None:
        self.budget.step()
        match node:
            case ("text", str(text)):
                self.write(text)
            case ("reference", chain, bool(is_quiet), str(source)):
                value = self.reference(chain)
                # Recorded: a stage variable that is missing is empty, and not its own text.
                missing = "" if is_quiet or source.startswith("$stageVariables.") else source
                self.write(missing if value is None else text_of(value, self.budget))
            case ("set", chain, expression):
                self._set(chain, self.value(expression))
            case ("if", branches):
                for condition, body in cast("list[tuple[Expression | None, list[Node]]]", branches):
                    if condition is None or is_true(self.value(condition)):
                        self.nodes(body)
                        return
            case ("foreach", str(name), expression, body):
                self._foreach(name, self.value(expression), cast("list[Node]", body))
            case ("break",):
                raise _Break
            case _:
                raise _Stop

    def _foreach(self, name: str, items: Any, body: list[Node]) -> None:
        if isinstance(items, dict):
            members = cast("dict[str, Any]", items)
            self.budget.make(8 * len(members))
            items = list(members.values())
        if not isinstance(items, list):
            return
        values = cast("list[Any]", items)[:MOST_ITERATIONS]
        self.budget.make(8 * len(values))
        outer = {key: self.variables.get(key) for key in (name, "foreach", "velocityCount")}
        try:
            for index, value in enumerate(values):
                self.budget.step()
                self.variables[name] = value
                self.variables["velocityCount"] = index + 1
                self.variables["foreach"] = _loop_at(index, len(values), outer["foreach"])
                self.nodes(body)
        except _Break:
            pass
        self.variables.update(outer)

    def _set(self, chain: Any, value: Any) -> None:
        name, *accesses = chain
        if not accesses:
            self.variables[name] = value
            return
        target = self.reference([name, *accesses[:-1]])
        self.budget.has_shared = True
        kind, *rest = accesses[-1]
        key = rest[0] if kind == "property" else self.value(rest[0])
        if isinstance(target, dict):
            self.budget.make(MEMBER_BYTES)
            cast("dict[str, Any]", target)[text_of(key, self.budget)] = value
        elif isinstance(target, list) and isinstance(key, int):
            items = cast("list[Any]", target)
            if -1 < key < len(items):
                items[key] = value

    def reference(self, chain: Any) -> Any:
        """Return the value of a reference; None when it has none."""
        name, *accesses = chain
        value: Any = self.variables.get(name)
        for kind, *rest in accesses:
            self.budget.step()
            if value is None:
                return None
            if kind == "property":
                value = self._property(value, rest[0])
            elif kind == "index":
                value = self._index(value, self.value(rest[0]))
            else:
                arguments = [self.value(argument) for argument in rest[1]]
                value = method(value, rest[0], arguments, self.budget)
        return value

    def value(self, expression: Expression) -> Any:
        """Return the value of an expression."""
        self.budget.step()
        kind, *rest = expression
        if kind == "constant":
            return rest[0]
        if kind == "reference":
            return self.reference(rest[0])
        if kind == "text":
            inner = _Run(self.variables, self.budget)
            inner.nodes(rest[0])
            self.budget.make(4 * inner.size)
            return "".join(inner.parts)
        if kind == "list":
            self.budget.make(MEMBER_BYTES * (1 + len(rest[0])))
            return [self.value(part) for part in rest[0]]
        if kind == "map":
            self.budget.make(MEMBER_BYTES * (1 + len(rest[0])))
            return {
                text_of(self.value(key), self.budget): self.value(part) for key, part in rest[0]
            }
        if kind == "range":
            return self._range(self.value(rest[0]), self.value(rest[1]))
        if kind == "not":
            return not is_true(self.value(rest[0]))
        if kind == "and":
            return is_true(self.value(rest[0])) and is_true(self.value(rest[1]))
        if kind == "or":
            return is_true(self.value(rest[0])) or is_true(self.value(rest[1]))
        return _binary(kind, self.value(rest[0]), self.value(rest[1]), self.budget)

    def _range(self, first: Any, last: Any) -> list[int]:
        if not isinstance(first, int) or not isinstance(last, int):
            return []
        if abs(last - first) > MOST_RANGE_NUMBERS:
            raise TemplateError(f"a range has more than {MOST_RANGE_NUMBERS} numbers")
        self.budget.make(MEMBER_BYTES * (1 + abs(last - first)))
        return list(range(first, last + 1)) if first <= last else list(range(first, last - 1, -1))

    def _property(self, value: Any, name: str) -> Any:
        if isinstance(value, Members):
            property_value = value.properties.get(name)
            return property_value() if callable(property_value) else property_value
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return members.get(name)
        if name in ("size", "length", "empty"):
            return method(value, {"empty": "isEmpty"}.get(name, name), [], self.budget)
        return None

    def _index(self, value: Any, key: Any) -> Any:
        if isinstance(value, Members):
            return self._property(value, text_of(key, self.budget))
        if isinstance(value, dict):
            return cast("dict[str, Any]", value).get(text_of(key, self.budget))
        if isinstance(value, list) and isinstance(key, int):
            items = cast("list[Any]", value)
            return items[key] if -len(items) <= key < len(items) else None
        return None


def is_true(value: Any) -> bool:
    """Whether a condition is true: every value but null and false is."""
    return value is not None and value is not False


_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _binary(kind: str, left: Any, right: Any, budget: Budget) -> Any:
    if kind in ("==", "!="):
        return are_equal(left, right, budget) == (kind == "==")
    if kind in _ORDER:
        alike = is_number(left) and is_number(right)
        alike = alike or (isinstance(left, str) and isinstance(right, str))
        return _ORDER[kind](left, right) if alike else False
    if kind == "+" and (isinstance(left, str) or isinstance(right, str)):
        return join_texts(left, right, budget)
    if not is_number(left) or not is_number(right):
        return None
    if kind in ("/", "%"):
        if right == 0:
            return None
        if isinstance(left, int) and isinstance(right, int):
            # Java's integer division rounds towards zero.
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return quotient if kind == "/" else left - quotient * right
        return left / right if kind == "/" else left % right
    result = {"+": operator.add, "-": operator.sub, "*": operator.mul}[kind](left, right)
    if isinstance(result, int) and abs(result) > 2**63:
        raise TemplateError("a number in the template is too large")
    return result
