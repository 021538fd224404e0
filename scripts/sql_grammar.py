"""Writes headrace/sql/grammar.json: the tables of grammar.lark, so that no process waits for lark to make them.

`python -m scripts.sql_grammar` writes them; with --check it writes nothing, and exits 1 when they are stale.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from lark import Lark
from lark.parsers.lalr_analysis import Shift

GRAMMAR = Path(__file__).parent.parent / "headrace" / "sql" / "grammar.lark"
TABLES = GRAMMAR.with_suffix(".json")


def tables() -> str:
    """Return the tables as text, in one order for one grammar."""
    lark = Lark(
        GRAMMAR.read_text(encoding="utf-8"), parser="lalr", start="script", maybe_placeholders=True
    )
    table: Any = lark.parser.parser._parse_table  # noqa: SLF001 - lark has no other way to it
    numbers = _numbers(table)
    names = sorted({name for actions in table.states.values() for name in actions})
    rules = sorted(
        {
            json.dumps(_rule(argument, names))
            for actions in table.states.values()
            for action, argument in actions.values()
            if action is not Shift
        }
    )
    index_of_name = {name: index for index, name in enumerate(names)}
    index_of_rule = {rule: index for index, rule in enumerate(rules)}
    states: list[list[int]] = []
    for state in numbers:
        row: list[int] = []
        for name, (action, argument) in sorted(table.states[state].items()):
            to = (
                numbers[argument]
                if action is Shift
                else -1 - index_of_rule[json.dumps(_rule(argument, names))]
            )
            row += [index_of_name[name], to]
        states.append(row)
    parts: dict[str, str] = {
        "first": json.dumps(numbers[table.start_states["script"]]),
        "last": json.dumps(numbers[table.end_states["script"]]),
        **{key: json.dumps(value) for key, value in _lexer(lark).items()},
        "names": json.dumps(names),
        "rules": "[\n" + ",\n".join(rules) + "\n]",
        "states": "[\n"
        + ",\n".join(json.dumps(row, separators=(",", ":")) for row in states)
        + "\n]",
    }
    return "{\n" + ",\n".join(f'"{key}": {value}' for key, value in parts.items()) + "\n}\n"


def _numbers(table: Any) -> dict[int, int]:
    """Return each state's number in the order in which the grammar reaches it: lark's own depends on its hashes."""
    numbers = {table.start_states["script"]: 0}
    for state in (found := list(numbers)):
        for _, (action, argument) in sorted(table.states[state].items()):
            if action is Shift and argument not in numbers:
                numbers[argument] = len(numbers)
                found.append(argument)
    return numbers


def _lexer(lark: Lark) -> dict[str, Any]:
    """Return the words' and the symbols' terminals, and the pattern of every token."""
    words: dict[str, list[str]] = {}
    symbols: dict[str, str] = {}
    patterns: list[tuple[str, str]] = []
    for terminal in sorted(lark.terminals, key=lambda one: (-one.priority, one.name)):
        word = terminal.pattern.value.removesuffix(r"\b")
        if word.replace("_", "").isalpha():
            words.setdefault(word.upper(), []).append(terminal.name)
        elif terminal.pattern.type == "str":
            symbols[terminal.pattern.value] = terminal.name
        elif terminal.name not in lark.ignore_tokens:
            patterns.append((terminal.name, terminal.pattern.value))
    ignored = "|".join(t.pattern.value for t in lark.terminals if t.name in lark.ignore_tokens)
    longest_first = sorted(symbols, key=lambda symbol: (-len(symbol), symbol))
    lexer = (
        f"(?P<IGNORED>(?:{ignored})+)|"
        + "|".join(f"(?P<{name}>{pattern})" for name, pattern in patterns)
        + f"|(?P<SYMBOL>{'|'.join(map(re.escape, longest_first))})"
    )
    return {"words": words, "symbols": symbols, "lexer": lexer}


def _rule(rule: Any, names: list[str]) -> list[Any]:
    """Return what to do when a rule's parts are complete, as headrace.sql.parsing reads it."""
    keeps_all = rule.options.keep_all_tokens
    parts: list[tuple[int, int]] = []
    index = 0
    # Lark marks the place of each option that is not there, before the part that follows it.
    for is_missing in rule.options.empty_indices or [False] * len(rule.expansion):
        if is_missing:
            parts.append((-1, 0))
            continue
        symbol = rule.expansion[index]
        if keeps_all or not (symbol.is_term and symbol.filter_out):
            parts.append((index, int(not symbol.is_term and symbol.name.startswith("_"))))
        index += 1
    origin = rule.origin.name
    method = (
        ""
        if origin.startswith("_")
        else f"build_{rule.alias or rule.options.template_source or origin}"
    )
    passes = rule.options.expand1 and rule.alias is None and len(parts) == 1 and not parts[0][1]
    return [names.index(origin), len(rule.expansion), method, int(passes), *parts]


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(TABLES.read_text(encoding="utf-8") != tables())
    TABLES.write_text(tables(), encoding="utf-8")
