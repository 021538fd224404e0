"""Reads Java's properties files with the line of each key, and takes values from them by type.

Documented: https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/Properties.html#load(java.io.Reader).
A key that stands twice is refused: Java takes the last one, and the first is without effect.

Says what is wrong with a configuration file, in one sentence with the line; and where the keys of a JSON text lie.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.agent.converters import JavaPattern, compile_java

_BLANKS = " \t\f"
_KEY = re.compile(r"((?:\\.|[^\\:=\s])*+)[ \t\f]*+(?:[:=][ \t\f]*+)?", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
# A variable, or a word for a configuration filter.
_PLACE = re.compile(r"\$\{(\w+)(?:\[(['\"]?)([^'\"\]]+)\2\])?\}")
_FILTER_S = 60.0
_SIGNS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Value:
    """A key's value and its line."""

    text: str
    line: int


def parse_properties(path: Path) -> dict[str, Value]:
    """Return the keys of a file. Raises ConfigurationError, OSError."""
    try:
        text = path.read_text()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}:1: it is not a text in UTF-8") from error
    values: dict[str, Value] = {}
    for line, content in _logical_lines(text):
        match = _KEY.match(content)
        assert match is not None  # The pattern takes the empty text too.
        key, value = _unescape(path, line, match[1]), _unescape(path, line, content[match.end() :])
        if key in values:
            raise ConfigurationError(
                f"{path}:{line}: {key} has a value in line {values[key].line} already"
            )
        values[key] = Value(value.rstrip(), line)
    return values


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """Yield the lines that have a key, with their numbers; a backslash at the end joins the next line."""
    lines = enumerate(re.split(r"\r\n|\r|\n", text), 1)
    for number, line in lines:
        content = line.lstrip(_BLANKS)
        if not content or content[0] in "#!":
            continue
        while (len(content) - len(content.rstrip("\\"))) % 2:
            content = content[:-1] + next(lines, (0, ""))[1].lstrip(_BLANKS)
        yield number, content


def _unescape(path: Path, line: int, text: str) -> str:
    def sign(match: re.Match[str]) -> str:
        letter = match[1]
        if letter == "u":
            raise ConfigurationError(f"{path}:{line}: \\u needs four hexadecimal digits")
        return chr(int(letter[1:], 16)) if len(letter) > 1 else _SIGNS.get(letter, letter)

    return _ESCAPE.sub(sign, text)


def resolve(path: Path, values: dict[str, Value], agent: str) -> dict[str, Value]:
    """Return an agent's values with environment variables and what its configuration filters say in their places.

    A variable that is not set stays as it stands, as in Flume without its EnvVarResolverProperties.
    Raises ConfigurationError.
    """
    own = Section(path, values, f"{agent}.", f"the agent {agent}")
    lookups: dict[str, Callable[[str], str | None]] = {}
    for name in own.words("configfilters", ""):
        part = own.part(f"configfilters.{name}.", f"configuration filter {name}")
        lookups[name] = _filter_of(part)
        part.finish()

    def resolved(key: str, value: Value) -> Value:
        def replace(match: re.Match[str]) -> str:
            name, _, word = match.groups()
            if word is None:
                return os.environ.get(name, match[0])
            text = lookups[name](word) if name in lookups else None
            if text is None:
                raise ConfigurationError(f"{path}:{value.line}: {match[0]} of {key} has no value")
            return text

        return Value(_PLACE.sub(replace, value.text), value.line)

    return {
        key: resolved(key, value) if key.startswith(f"{agent}.") else value
        for key, value in values.items()
    }


def _filter_of(section: Section) -> Callable[[str], str | None]:
    """Return how a configuration filter finds the value of a word. Raises ConfigurationError."""
    kind = section.text("type")
    if kind.lower() == "env":
        return os.environ.get
    if kind.lower() != "external":
        raise section.error("type", f"the configuration filter {kind!r} is not built")
    charset = section.charset("charset")
    try:
        command = shlex.split(section.text("command"))
    except ValueError as error:
        raise section.error("command", f"command of {section.owner}: {error}") from error
    if not command:
        raise section.error("command", f"{section.owner} needs command")

    def run(word: str) -> str | None:
        try:
            ended = subprocess.run(
                [*command, word], capture_output=True, timeout=_FILTER_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise section.error("command", f"{command[0]} {word}: {error}") from error
        if ended.returncode:
            raise section.error("command", f"{command[0]} {word} ended with {ended.returncode}")
        return ended.stdout.decode(charset, "replace").rstrip("\r\n")

    return run


class Section:
    """The keys below a prefix, such as those of a source; each is taken by its type.

    `finish` refuses what nobody took. Without effect: keys that `ignore` took.
    """

    def __init__(self, path: Path, values: dict[str, Value], prefix: str, owner: str) -> None:
        """Take the values of the whole file, the prefix with its dot, and how sentences call the owner."""
        self._path, self._values, self.prefix, self.owner = path, values, prefix, owner
        self._keys = {key.removeprefix(prefix): key for key in values if key.startswith(prefix)}
        self._taken: set[str] = set()

    def error(self, key: str, sentence: str) -> ConfigurationError:
        """Return what is wrong at a key; without it, at the first key of the section."""
        lines = [self._values[full].line for full in self._keys.values()]
        line = self._values[self._keys[key]].line if key in self._keys else min(lines, default=1)
        return ConfigurationError(f"{self._path}:{line}: {sentence}")

    def has(self, key: str) -> bool:
        """Whether the key stands there."""
        return key in self._keys

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text; without a default the key is needed."""
        self._taken.add(key)
        if key in self._keys:
            return self._values[self._keys[key]].text
        if default is None:
            raise self.error(key, f"{self.owner} needs {key}")
        return default

    def number(
        self, key: str, default: int | None = None, *, least: int = 0, most: int = 1 << 62
    ) -> int:
        """Return a whole number in bounds; see `text`."""
        text = self.text(key, None if default is None else str(default))
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            bound = f"from {least} to {most}" if most < 1 << 62 else f"of at least {least}"
            raise self.error(key, f"{key} of {self.owner} is a whole number {bound}, not {text!r}")
        return number

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        return self.choice(key, ("true", "false"), "true" if default else "false") == "true"

    def choice(self, key: str, options: tuple[str, ...], default: str) -> str:
        """Return one of the options, whatever its case."""
        text = self.text(key, default)
        for option in options:
            if option.lower() == text.lower():
                return option
        raise self.error(key, f"{key} of {self.owner} is {' or '.join(options)}, not {text!r}")

    def words(self, key: str, default: str | None = None) -> list[str]:
        """Return the words of a list that spaces part."""
        return self.text(key, default).split()

    def pattern(self, key: str, default: str | None = None) -> JavaPattern:
        """Return a regular expression of Java's that runs in linear time."""
        text = self.text(key, default)
        try:
            return compile_java(text)
        except ValueError as error:
            raise self.error(
                key, f"{key} of {self.owner} is not a regular expression that runs in linear time: {error}"
            ) from error  # fmt: skip

    def charset(self, key: str, default: str = "UTF-8") -> str:
        """Return a character set that Python knows."""
        text = self.text(key, default)
        try:
            "".encode(text)
        except LookupError as error:
            raise self.error(
                key, f"{key} of {self.owner} is no known character set: {text!r}"
            ) from error
        return text

    def below(self, prefix: str) -> dict[str, str]:
        """Return the keys below a prefix of the section, without it, and their values; all are taken."""
        keys = [key for key in self._keys if key.startswith(prefix)]
        self._taken.update(keys)
        return {key.removeprefix(prefix): self._values[self._keys[key]].text for key in keys}

    def part(self, prefix: str, owner: str) -> Section:
        """Return the keys below a prefix as a section of their own, which its taker finishes."""
        self._taken.update(key for key in self._keys if key.startswith(prefix))
        return Section(self._path, self._values, self.prefix + prefix, owner)

    def ignore(self, *keys: str) -> None:
        """Take keys that have a meaning for Flume alone."""
        self._taken.update(keys)

    def finish(self) -> None:
        """Refuse a key that nobody took."""
        for key in self._keys:
            if key not in self._taken:
                raise self.error(key, f"{self.owner} has no key {key!r}")

    @property
    def keys(self) -> list[str]:
        """The keys of the section, in their order."""
        return list(self._keys)

    @property
    def names(self) -> set[str]:
        """The first words of the keys: the names of components."""
        return {key.partition(".")[0] for key in self._keys}


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
