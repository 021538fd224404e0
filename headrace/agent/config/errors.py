"""What is wrong with a configuration file, in one sentence with the line; and where the keys of a JSON text lie."""

from __future__ import annotations

import json
import re

# A key's place in a JSON text: names of members and numbers of items, from the outermost.
JsonPath = tuple[str | int, ...]
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


class ConfigurationError(Exception):
    """The configuration cannot be used. The message is one sentence."""


def blank_comments(text: str) -> str:
    """Return a JSON text with blanks in place of Java's comments, so that every line stays where it is."""
    return _COMMENT.sub(lambda match: match[1] or re.sub(r"[^\n]", " ", match[0]), text)


def lines_of_keys(text: str) -> tuple[dict[JsonPath, int], list[JsonPath]]:
    """Return the line of every key and item of a valid JSON text, and the paths of keys that stand there twice."""
    lines: dict[JsonPath, int] = {(): 1}
    doubled: list[JsonPath] = []
    path: list[str | int] = []
    kinds: list[str] = []
    is_key, line, at = False, 1, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        line, at = line + text.count("\n", at, match.start()), match.start()
        if token in "}]":
            kinds.pop()
            path.pop()
            is_key = False
        elif token == ",":
            is_key = kinds[-1] == "{"
            if not is_key:
                path[-1] = int(path[-1]) + 1
        elif token != ":":
            if is_key:
                path[-1], is_key = str(json.loads(token)), False
                if tuple(path) in lines:
                    doubled.append(tuple(path))
                lines[tuple(path)] = line
                continue
            lines.setdefault(tuple(path), line)
            if token in "{[":
                kinds.append(token)
                path.append("" if token == "{" else 0)
                is_key = token == "{"
    return lines, doubled
