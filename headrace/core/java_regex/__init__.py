r"""Parses Java's regular expressions and writes them for RE2 and for the `regex` module.

AWS is written in Java: the patterns of its models and CloudFormation's AllowedPattern follow java.util.regex. This
package translates the syntax that differs from Python's and RE2's: nested and intersected classes, `\Q..\E`, `\uXXXX`
(surrogate pairs too), `\p{Alpha}` and its kin, `\h`, `\v`, `\R`, what `.` and `\s` match, possessive repeats. A pattern
is always meant to match a whole text. Pure functions; the length of a pattern is bounded by the caller.

Source: https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/regex/Pattern.html (documented); the
table in tests/unit/core/test_java_regex.py was observed with Java 17.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headrace.core.java_regex.nodes import (
    MAX_CODE_POINT,
    Alternation,
    Anchor,
    BackReference,
    BadPattern,
    CharacterSet,
    Concatenation,
    Group,
    Node,
    NotLinear,
    Repeat,
)
from headrace.core.java_regex.parser import parse

__all__ = [
    "BadPattern",
    "Node",
    "NotLinear",
    "as_one_run",
    "for_backtracking",
    "for_re2",
    "parse",
]


# RE2 accepts no higher repeat count; a higher one is written as several repeats in a row.
RE2_HIGHEST_COUNT = 1000
MOST_EMITTED_CHARACTERS = 200_000
MOST_UNROLLED = 10_000


def as_one_run(node: Node) -> str | None:
    """Return the pattern for Python's own `re` when it is one repeated set of characters.

    Such a pattern can match in one way only, so every engine is linear, and `re` is the fastest by far.
    """
    parts = node.parts if isinstance(node, Concatenation) else (node,)
    inner = [part for part in parts if not (isinstance(part, Anchor) and part.kind in "^$")]
    if len(inner) != 1 or len(parts) - len(inner) > 2:
        return None
    if len(parts) > 1 and not _is_framed(parts, inner[0]):
        return None
    run = inner[0]
    body = run.body if isinstance(run, Repeat) else run
    if not isinstance(body, CharacterSet) or body.properties:
        return None
    if not isinstance(run, Repeat):
        return _one(body, _python_point)
    return _one(body, _python_point) + _count(run.lowest, run.highest)


def _is_framed(parts: Sequence[Node], inner: Node) -> bool:
    """Whether the only anchors are a leading `^` and a trailing `$`, which a match of the whole text implies."""
    at = parts.index(inner)
    before, after = parts[:at], parts[at + 1 :]
    return all(isinstance(p, Anchor) and p.kind == "^" for p in before) and all(
        isinstance(p, Anchor) and p.kind == "$" for p in after
    )


def for_re2(node: Node, *, highest_point: int = MAX_CODE_POINT) -> str:
    """Return the pattern in RE2's syntax, without captures. Raises NotLinear, BadPattern.

    The pattern is for texts without characters above `highest_point`: one for ASCII is much smaller.
    """
    return _check_length(_Re2(highest_point).write(node))


def for_backtracking(node: Node) -> str:
    """Return the pattern in the syntax of the `regex` module, which unrolls counts. Raises BadPattern."""
    if _count_unrolled(node) > MOST_UNROLLED:
        raise BadPattern("The pattern repeats too often")
    return _write_backtracking(node)


def _count_unrolled(node: Node) -> int:
    """Return how many characters a pattern has once its repeat counts are written out."""
    match node:
        case Concatenation(parts):
            return sum(map(_count_unrolled, parts))
        case Alternation(options):
            return sum(map(_count_unrolled, options))
        case Group(_, body):
            return 1 + _count_unrolled(body)
        case Repeat(body, lowest, highest, _):
            return max(1, lowest, highest or 0) * _count_unrolled(body)
        case _:
            return 1


def _check_length(text: str) -> str:
    if len(text) > MOST_EMITTED_CHARACTERS:
        raise BadPattern("The pattern is too large")
    return text


@dataclass(frozen=True, slots=True)
class _Re2:
    highest_point: int

    def write(self, node: Node) -> str:
        match node:
            case CharacterSet():
                return _one(self.clip(node), lambda point: f"\\x{{{point:X}}}")
            case Anchor(kind, lines):
                return _place(kind, lines=lines, end="\\z")
            case Concatenation(parts):
                return _check_length("".join(map(self.write, parts)))
            case Alternation(options):
                return _check_length("(?:" + "|".join(map(self.write, options)) + ")")
            case Group(opening, body):
                if opening in ("(?=", "(?!", "(?<=", "(?<!", "(?>"):
                    raise NotLinear
                return f"(?:{self.write(body)})"
            case Repeat(body, lowest, highest, mode):
                if mode == "+":
                    raise NotLinear
                return _re2_repeat(f"(?:{self.write(body)})", lowest, highest)
            case BackReference():
                raise NotLinear

    def clip(self, node: CharacterSet) -> CharacterSet:
        top = self.highest_point
        ranges = tuple((low, min(high, top)) for low, high in node.ranges if low <= top)
        return replace(node, ranges=ranges)


def _place(kind: str, *, lines: bool, end: str) -> str:
    if kind in "bB":
        return f"\\{kind}"
    if lines:
        return f"(?m:{kind})"
    return "\\A" if kind == "^" else end


def _re2_repeat(body: str, lowest: int, highest: int | None) -> str:
    """Write a repeat; greediness has no meaning when the whole text must match."""
    top = RE2_HIGHEST_COUNT
    if lowest <= top and (highest is None or highest <= top):
        return body + _count(lowest, highest)
    optional = 0 if highest is None else highest - lowest
    if (lowest // top + optional // top) * len(body) > MOST_EMITTED_CHARACTERS:
        raise BadPattern("The pattern repeats too often")
    must, rest = divmod(lowest, top)
    text = f"{body}{{{top}}}" * must
    if highest is None:
        return f"{text}{body}{{{rest},}}"
    may, rest_may = divmod(optional, top)
    text += f"{body}{{{rest}}}" if rest else ""
    text += f"{body}{{0,{top}}}" * may
    return text + (f"{body}{{0,{rest_may}}}" if rest_may else "")


def _write_backtracking(node: Node) -> str:
    match node:
        case CharacterSet():
            return _one(node, _python_point)
        case Anchor(kind, lines):
            return _place(kind, lines=lines, end="\\Z")
        case Concatenation(parts):
            return "".join(map(_write_backtracking, parts))
        case Alternation(options):
            return "(?:" + "|".join(map(_write_backtracking, options)) + ")"
        case Group(opening, body):
            return f"{opening}{_write_backtracking(body)})"
        case Repeat(body, lowest, highest, mode):
            return f"(?:{_write_backtracking(body)}){_count(lowest, highest)}{mode}"
        case BackReference(group, any_case):
            back = f"\\g<{group}>" if group.isdigit() else f"(?P={group})"
            return f"(?i:{back})" if any_case else f"(?:{back})"


def _count(lowest: int, highest: int | None) -> str:
    if (lowest, highest) == (0, None):
        return "*"
    return f"{{{lowest},{'' if highest is None else highest}}}"


def _one(node: CharacterSet, point: Callable[[int], str]) -> str:
    members = "".join(
        point(low) if low == high else f"{point(low)}-{point(high)}" for low, high in node.ranges
    )
    members += "".join(node.properties)
    if not members:  # an empty set, which matches nothing
        return f"[^{point(0)}-{point(MAX_CODE_POINT)}]"
    return f"[{'^' if node.negated else ''}{members}]"


def _python_point(point: int) -> str:
    return f"\\U{point:08X}"
