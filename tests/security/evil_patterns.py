"""Patterns that take a backtracking engine for ever, and what asks a door with each."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud

TEXT = "a" * 60 + "-"
# Patterns of which a backtracking engine tries more ways than there are atoms, and a text that drives it to.
EVIL = [
    "(a+)+$",
    "(a|a)*b",
    "((a*)*)*b",
    "(a|aa)+$",
    "(.*a){25}b",
    "(?=(a+)+b)a*",
    r"(a+)+\1b",
    "(?:(?:a?){20}){20}b" + "(?<!a)",
    "([a-z]+)*!",
    "(a{1,30}){1,30}b",
    "(?:a*)*(?:a*)*(?:a*)*b",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
]
# Families of evil patterns by size: (pattern, text).
FAMILIES: dict[str, Callable[[int], tuple[str, str]]] = {
    "nested repeats": lambda n: ("(" * n + "a" + "+)" * n + "b", "a" * n * 40),
    "rows of choices": lambda n: ("(a|aa)" * n + "b", "a" * n * 2),
    "rows of options": lambda n: ("a?" * n + "a" * n, "a" * n),
    "rows of optional groups": lambda n: ("(?:a?b?)?" * n + "c", "a" * n),
    "rows of stars": lambda n: (".*" * n + "b", "a" * n * 40),
    "stars of every character": lambda n: (r"(?:.*\n?)*" * n + "b", "\u00e9" * n * 40),
    "repeats in look-ahead": lambda n: ("(?=(a+)+b)" * n + "a*", "a" * n * 40),
    "choices after look-ahead": lambda n: ("(?!x)" + "(a|aa)" * n + "b", "a" * (n * 3 // 2)),
    "choices in look-ahead": lambda n: (f"(?=(?:a|aa){{{n}}}$)b|c", "a" * (n * 3 // 2)),
    "repeats in look-behind": lambda n: ("(?:(?<=(?:a|aa)*)a)*" * n + "b", "a" * n * 40),
    "back references": lambda n: ("(a*)" * n + r"\1\2" * n + "b", "a" * n * 20),
    "optional back references": lambda n: (r"(a+)(?:\1?b?)?" + r"(?:\1|a)" * n + "c", "a" * n * 2),
    "possessive repeats": lambda n: ("(?:(?:a|aa)++b?)*" * n + "c", "a" * n * 40),
    "atomic groups": lambda n: ("(?>(a|aa)+)*" * n + "b", "a" * n * 40),
    "counts of counts": lambda n: (f"((a{{{n * 20}}}){{{n * 20}}})b", "a" * n * 40),
    "counts of open counts": lambda n: (f"(a{{0,{n}}}){{0,{n}}}b", "a" * n * 40),
    "counts after look-ahead": lambda n: (f"(?!x)(?:(?:a?){{{n}}}){{{n}}}b", "a" * n * 2),
    "many classes": lambda n: (r"[^\u0101-\u2000]" * n * 4 + "x", "\u00e9" * n * 4),
    "many classes of any case": lambda n: ("(?i)" + r"[^\u0101-\u2000]" * n * 4, "\u00e9" * n),
    "many properties": lambda n: (r"\p{L}" * n * 4 + "x", "\u00e9" * n * 4),
    "properties after look-ahead": lambda n: (r"(?!b)(?:\p{L}|\w\w)" * n + "-", "\u00e9a" * n),
    "many empty groups": lambda n: ("[ab]*a[ab]*" + "()" * n * 20 + "c", "a" * 128),
    "choices of nothing": lambda n: ("(?!x)(?:" + "(?:|(?=))" * n + "b|)", ""),
}
SIZES = (10, 20, 40)
WILDCARDS = ["*a" * 20 + "b", "a*" * 30 + "b", "*a*" + "a" * 50 + "*b", "*" * 40 + "b"]
RESOURCE = {"Q": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}
Door = Callable[[InProcessCloud], Any]
DOORS: dict[str, Door] = {}


def door(function: Door) -> Door:
    DOORS[function.__name__] = function
    return function


def fuzzed(count: int = 15) -> Iterator[str]:
    """Yield random patterns of nested repeats."""
    chance = random.Random(11)

    def part(depth: int) -> str:
        inner = (
            chance.choice(["a", ".", "[a-z]", r"\w", "aa|a", "a|b"])
            if depth == 0
            else part(depth - 1)
        )
        repeat = chance.choice(["*", "+", "{1,20}", "{2,}", "*?", "+?"])
        return f"({chance.choice(['', '?:'])}{inner}){repeat}"

    for _ in range(count):
        yield "".join(
            part(chance.randint(1, 3)) for _ in range(chance.randint(1, 3))
        ) + chance.choice("!b$")


def answers(call: Callable[[str], Any], patterns: list[str]) -> str:
    """Send every pattern; return what was answered to the first."""
    said = ""
    for pattern in patterns:
        try:
            answer = str(call(pattern))
        except ClientError as error:
            answer = error.response["Error"]["Message"]
        said = said or answer
    return said
