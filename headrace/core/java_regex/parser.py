"""Parses Java's regular expressions into nodes: alternatives, groups, repetitions, anchors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.core.java_regex.nodes import (
    CATEGORIES,
    CONTROL_ESCAPES,
    KINDS,
    LINE_ENDS,
    MAX_CODE_POINT,
    POSIX,
    Alternation,
    Anchor,
    BackReference,
    BadPattern,
    CharacterSet,
    Concatenation,
    Group,
    Node,
    Range,
    Ranges,
    Repeat,
    all_but,
    both_cases,
    in_both,
    merge_ranges,
    points,
)

# Reads the parts of Java's regular expressions that stand for characters: escapes, and sets in brackets.

MOST_NESTED = 100


@dataclass(slots=True)
class Flags:
    """The modifiers that are set: `(?i)`, `(?m)`, `(?s)`, `(?x)`."""

    any_case: bool = False
    lines: bool = False
    dot_all: bool = False
    comments: bool = False

    def copy(self) -> Flags:
        """Return a copy, which can be changed without changing these flags."""
        return Flags(self.any_case, self.lines, self.dot_all, self.comments)


@dataclass(slots=True)
class CharacterReader:
    """Reads characters, escapes and sets from the current position of a pattern. Its methods raise BadPattern."""

    text: str
    at: int = 0
    flags: Flags = field(default_factory=Flags)

    def fail(self, why: str) -> BadPattern:
        """Return the error for a pattern that is wrong at this position."""
        return BadPattern(f"{why} near index {self.at}")

    def more(self, ahead: str = "") -> bool:
        """Whether `ahead` follows; without `ahead`, whether anything follows."""
        return self.text.startswith(ahead, self.at) if ahead else self.at < len(self.text)

    def take(self) -> str:
        """Read one character."""
        if not self.more():
            raise self.fail("The pattern ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def taken(self, expected: str) -> bool:
        """Read `expected` if it follows; return whether it did."""
        if not self.more(expected):
            return False
        self.at += len(expected)
        return True

    def until(self, end: str) -> str:
        """Read up to and including `end`; return the text before `end`."""
        end_at = self.text.find(end, self.at)
        if end_at < 0:
            raise self.fail(f"There is no closing {end}")
        piece = self.text[self.at : end_at]
        self.at = end_at + len(end)
        return piece

    def one(self, ranges: Ranges) -> CharacterSet:
        """Return a node that matches any one of these characters."""
        return CharacterSet(self.with_both_cases(ranges))

    def with_both_cases(self, ranges: Sequence[Range]) -> Ranges:
        """Return the characters, in both cases when case is ignored."""
        return both_cases(ranges) if self.flags.any_case else merge_ranges(ranges)

    def escape_in_set(self) -> tuple[Ranges, str]:
        """Read the escape after a backslash, where it stands for characters: (ranges, or a property)."""
        letter = self.take()
        if letter in KINDS:
            return KINDS[letter], ""
        if letter.lower() in KINDS:
            return all_but(KINDS[letter.lower()]), ""
        if letter in "pP":
            return self.unicode_property(negated=letter == "P")
        point = self.code_point(letter)
        return ((point, point),), ""

    def code_point(self, letter: str) -> int:
        """Return the one character that an escape stands for; `letter` is the character after the backslash."""
        if letter in CONTROL_ESCAPES:
            return CONTROL_ESCAPES[letter]
        match letter:
            case "c":
                return ord(self.take()) ^ 64
            case "0":
                return self.octal()
            case "x":
                digits = self.until("}") if self.taken("{") else self.take() + self.take()
                return self.hexadecimal(digits)
            case "u":
                return self.utf16()
            case _ if letter.isascii() and letter.isalpha():
                raise self.fail("Illegal/unsupported escape sequence")
            case _:
                return ord(letter)

    def octal(self) -> int:
        r"""Read the digits of `\0`: at most three, at most 377."""
        digits = ""
        while len(digits) < 3 and self.more() and self.text[self.at] in "01234567":
            if len(digits) == 2 and digits[0] > "3":
                break
            digits += self.take()
        if not digits:
            raise self.fail("Illegal octal escape sequence")
        return int(digits, 8)

    def hexadecimal(self, digits: str) -> int:
        r"""Return the code point that the digits of `\x` or `\u` name."""
        if not digits or len(digits) > 6 or any(d not in "0123456789abcdefABCDEF" for d in digits):
            raise self.fail("Illegal hexadecimal escape sequence")
        point = int(digits, 16)
        if point > MAX_CODE_POINT:
            raise self.fail("Hexadecimal codepoint is too big")
        return point

    def utf16(self) -> int:
        r"""Read the digits of `\u`, and of the second half of a surrogate pair."""
        unit = self.hexadecimal("".join(self.take() for _ in range(4)))
        if 0xD800 <= unit <= 0xDBFF and self.more("\\u"):
            before = self.at
            self.at += 2
            low = self.hexadecimal("".join(self.take() for _ in range(4)))
            if 0xDC00 <= low <= 0xDFFF:
                return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
            self.at = before
        return unit

    def unicode_property(self, *, negated: bool) -> tuple[Ranges, str]:
        r"""Read the name after `\p` or `\P`: (ranges, or a property)."""
        name = self.until("}") if self.taken("{") else self.take()
        if name in POSIX:
            return (all_but(POSIX[name]) if negated else POSIX[name]), ""
        key, _, value = name.partition("=")
        if value:
            if key not in ("general_category", "gc", "script", "sc"):
                raise self.fail(f"Unknown Unicode property {{{name}}}")
            name = value
        elif name in CATEGORIES:
            name = CATEGORIES[name]
        elif name.startswith("Is"):
            name = name[2:]
        if not (name.isascii() and name.replace("_", "").isalnum()):
            raise self.fail(f"Unknown character property name {{{name}}}")
        return (), f"\\{'P' if negated else 'p'}{{{name}}}"

    # --- sets in brackets

    def read_brackets(self, depth: int) -> CharacterSet:
        """Read the rest of `[...]` as a node."""
        ranges, properties, negated = self.set_of(depth)
        return CharacterSet(ranges, properties, negated)

    def set_of(self, depth: int) -> tuple[Ranges, tuple[str, ...], bool]:
        """Read the rest of `[...]`: ranges, properties, and whether the set is negated."""
        if depth > MOST_NESTED:
            raise self.fail("The pattern is nested too deeply")
        negated = self.taken("^")
        ranges: list[Range] = []
        properties: list[str] = []
        both: Ranges | None = None
        first = True
        while first or not self.taken("]"):
            if self.flags.comments and self.more() and self.text[self.at] in " \t\n\x0b\f\r":
                self.at += 1
            elif self.taken("&&"):
                if properties:
                    raise self.fail("headrace cannot intersect Unicode properties")
                both = merge_ranges(ranges) if both is None else in_both(both, merge_ranges(ranges))
                ranges = []
            elif self.taken("["):
                inner, inner_properties, inner_negated = self.set_of(depth + 1)
                if inner_properties and inner_negated:
                    raise self.fail("headrace cannot join a negated set of Unicode properties")
                ranges += all_but(inner) if inner_negated else inner
                properties += inner_properties
            else:
                ranges_of_member, prop = self.member()
                ranges += ranges_of_member
                properties += [prop] if prop else []
            first = False
        if both is not None:
            if properties:
                raise self.fail("headrace cannot intersect Unicode properties")
            ranges = list(in_both(both, merge_ranges(ranges)))
        all_ranges = self.with_both_cases(ranges)
        if properties:
            return all_ranges, tuple(properties), negated
        return (all_but(all_ranges) if negated else all_ranges), (), False

    def member(self) -> tuple[Ranges, str]:
        """Read one character, escape or range of a set: (ranges, or a property)."""
        if self.taken("\\Q"):
            return points(self.until("\\E")), ""
        letter = self.take()
        if letter == "\\":
            ranges, prop = self.escape_in_set()
        else:
            ranges, prop = ((ord(letter), ord(letter)),), ""
        single = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
        if single and self.more("-") and self.at + 1 < len(self.text):
            after = self.text[self.at + 1]
            if after not in "][":
                self.at += 1
                return self.span(ranges[0][0]), ""
        return ranges, prop

    def span(self, low: int) -> Ranges:
        """Read the upper end of a range that begins at `low`."""
        letter = self.take()
        if letter == "\\":
            ranges, _ = self.escape_in_set()
            if len(ranges) != 1 or ranges[0][0] != ranges[0][1]:
                raise self.fail("Illegal character range")
            high = ranges[0][0]
        else:
            high = ord(letter)
        if high < low:
            raise self.fail("Illegal character range")
        return ((low, high),)


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
        remainder, self.at = self.text[self.at :], len(self.text)
        return remainder

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
