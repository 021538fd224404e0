"""Parses Java's regular expressions into nodes: alternatives, groups, repetitions, anchors."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.java_regex.characters import MOST_NESTED, CharacterReader
from headrace.core.java_regex.nodes import (
    MAX_CODE_POINT,
    Alternation,
    Anchor,
    BackReference,
    CharacterSet,
    Concatenation,
    Group,
    Node,
    Repeat,
)
from headrace.core.java_regex.sets import LINE_ENDS, all_but, merge_ranges, points


@dataclass(slots=True)
class _Parser(CharacterReader):
    """A recursive-descent parser over one pattern."""

    def choice(self, depth: int) -> Node:
        if depth > MOST_NESTED:
            raise self.fail("The pattern is nested too deeply")
        options = [self.row(depth)]
        while self.taken("|"):
            options.append(self.row(depth))
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def row(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.more() and not self.more("|") and not self.more(")"):
            parts += self.piece(depth)
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def piece(self, depth: int) -> list[Node]:
        if self.flags.comments:
            if self.text[self.at] in " \t\n\x0b\f\r":
                self.at += 1
                return []
            if self.taken("#"):
                while self.more() and self.take() not in "\n\r\u0085\u2028\u2029":
                    pass
                return []
        if self.taken("\\Q"):
            quoted = self.until("\\E") if self.text.find("\\E", self.at) >= 0 else self.rest()
            atoms: list[Node] = [self.one(((ord(letter), ord(letter)),)) for letter in quoted]
            return [*atoms[:-1], self._parse_repeats(atoms[-1])] if atoms else []
        atom = self.atom(depth)
        return [] if atom is None else [self._parse_repeats(atom)]

    def rest(self) -> str:
        found, self.at = self.text[self.at :], len(self.text)
        return found

    def atom(self, depth: int) -> Node | None:
        letter = self.take()
        match letter:
            case "(":
                return self.group(depth)
            case "[":
                return self.read_brackets(depth)
            case ".":
                return CharacterSet(
                    ((0, MAX_CODE_POINT),) if self.flags.dot_all else all_but(LINE_ENDS)
                )
            case "^" | "$":
                return Anchor(letter, self.flags.lines)
            case "\\":
                return self._parse_escape()
            case "*" | "+" | "?":
                self.at -= 1
                raise self.fail(f"Dangling meta character '{letter}'")
            case "{":
                self.at -= 1
                raise self.fail("Illegal repetition")
            case _:
                return self.one(((ord(letter), ord(letter)),))

    def group(self, depth: int) -> Node | None:
        before = self.flags.copy()
        opening = "("
        if self.taken("?"):
            opening = next((o for o in (":", "=", "!", "<=", "<!", ">") if self.taken(o)), "")
            if opening:
                opening = f"(?{opening}"
            elif self.taken("<"):
                opening = f"(?<{self.name()}>"
            elif self.inline_flags():
                return None  # until the end of the enclosing group
            else:
                opening = "(?:"
        body = self.choice(depth + 1)
        if not self.taken(")"):
            raise self.fail("Unclosed group")
        self.flags = before
        return Group(opening, body)

    def name(self) -> str:
        name = self.until(">")
        if not (name.isascii() and name.isalnum() and name[0].isalpha()):
            raise self.fail("Bad group name")
        return name

    def inline_flags(self) -> bool:
        """Read `i-s)` or `i-s:`; return whether it ended with `)`."""
        flags, on = self.flags.copy(), True
        while True:
            letter = self.take()
            match letter:
                case "i":
                    flags.any_case = on
                case "m":
                    flags.lines = on
                case "s":
                    flags.dot_all = on
                case "x":
                    flags.comments = on
                case "u":
                    pass  # Java folds the case of ASCII letters only
                case "-":
                    on = False
                case ")" | ":":
                    self.flags = flags
                    return letter == ")"
                case _:
                    raise self.fail("Unknown inline modifier")

    def _parse_repeats(self, body: Node) -> Node:
        highest: int | None
        if self.taken("*"):
            lowest, highest = 0, None
        elif self.taken("+"):
            lowest, highest = 1, None
        elif self.taken("?"):
            lowest, highest = 0, 1
        elif self.taken("{"):
            lowest, highest = self.counts()
        else:
            return body
        mode = "?" if self.taken("?") else "+" if self.taken("+") else ""
        return Repeat(body, lowest, highest, mode)

    def counts(self) -> tuple[int, int | None]:
        low, comma, high = self.until("}").partition(",")
        if not _is_count(low) or (high and not _is_count(high)):
            raise self.fail("Illegal repetition")
        if not comma:
            return int(low), int(low)
        if high and int(high) < int(low):
            raise self.fail("Illegal repetition range")
        return int(low), int(high) if high else None

    def _parse_escape(self) -> Node | None:
        letter = self.take()
        match letter:
            case "b" | "B":
                return Anchor(letter)
            case "A" | "G":
                return Anchor("^")
            case "z" | "Z":
                return Anchor("$")
            case "E":
                return None
            case "R":
                ends = self.one(merge_ranges([*LINE_ENDS, (0x0B, 0x0C)]))
                crlf = Concatenation((self.one(points("\r")), self.one(points("\n"))))
                return Group("(?:", Alternation((crlf, ends)))
            case "k":
                if not self.taken("<"):
                    raise self.fail("\\k is not followed by '<'")
                return BackReference(self.name(), self.flags.any_case)
            case _ if letter in "123456789":
                return BackReference(letter, self.flags.any_case)
            case _:
                self.at -= 1
                ranges, prop = self.escape_in_set()
                if prop:
                    return CharacterSet((), (prop,))
                return self.one(ranges)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def parse(pattern: str) -> Node:
    """Return the node of a Java pattern. Raises BadPattern."""
    reader = _Parser(pattern)
    node = reader.choice(0)
    if reader.more():
        raise reader.fail("Unmatched closing ')'")
    return node
