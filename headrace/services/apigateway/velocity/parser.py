"""Reads templates of the Velocity Template Language into nodes and expressions, which are plain tuples.

Nodes: ("text", text), ("reference", chain, is quiet, its source), ("set", chain, expression),
("if", [(condition or None, nodes)]), ("foreach", name, expression, nodes), ("break",), ("stop",).

A chain is a name, then accesses: ("property", name), ("index", expression), ("method", name, arguments). Expressions:
("reference", chain), ("constant", value), ("text", nodes of a string), ("list", expressions), ("range", first, last),
("map", pairs), ("not", expression), (operator, left, right).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any

from headrace.core.evaluation import Budget

Node = tuple[Any, ...]
Expression = tuple[Any, ...]
DEEPEST = 60
_LEVELS = (
    (("||", "or"),),
    (("&&", "and"),),
    (("==", "eq"), ("!=", "ne")),
    (("<=", "le"), (">=", "ge"), ("<", "lt"), (">", "gt")),
    (("+",), ("-",)),
    (("*",), ("/",), ("%",)),
)
_NAMES = {"||": "or", "&&": "and"}
_WORDS = {"true": True, "false": False, "null": None}


class TemplateError(ValueError):
    """A template cannot be parsed or rendered; the message is one sentence."""


class ExpressionReader(ABC):
    """Reads references and expressions from the current position of a template."""

    def __init__(self, text: str, budget: Budget, depth: int = 0) -> None:
        self._text = text
        # A bracket in a string is tried as an index first, so brackets in brackets are read more than once.
        self._budget = budget
        self._at: int = 0
        self._depth: int = depth
        # A directive inside a string cannot end a block outside the string.
        self._is_inner = depth > 0

    @abstractmethod
    def _template_in(self, content: str) -> list[Node]:
        """Return the nodes of a string in double quotes, which is a template itself."""

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise TemplateError("the template is nested too deeply")

    def _reference(self) -> tuple[list[Any], bool] | None:
        """Read a reference at a `$`; return its chain and whether it is quiet (`$!`); None when it is plain text."""
        text = self._text
        self._at += 1
        is_quiet = text.startswith("!", self._at)
        self._at += is_quiet
        braced = text.startswith("{", self._at)
        self._at += braced
        if not self._is_letter(self._at):
            return None
        chain = self._chain()
        if braced:
            if not text.startswith("}", self._at):
                return None
            self._at += 1
        return chain, is_quiet

    def _is_letter(self, at: int) -> bool:
        return at < len(self._text) and (self._text[at].isalpha() or self._text[at] == "_")

    def _word(self) -> str:
        start = self._at
        while self._at < len(self._text):
            char = self._text[self._at]
            if not (char.isalnum() or char in "_-"):
                break
            self._at += 1
        if start == self._at:
            raise TemplateError(f"a name is expected at character {start}")
        return self._text[start : self._at]

    def _chain(self) -> list[Any]:
        chain: list[Any] = [self._word()]
        text = self._text
        while self._at < len(text):
            if text[self._at] == "." and self._is_letter(self._at + 1):
                self._at += 1
                name = self._word()
                if text.startswith("(", self._at):
                    self._at += 1
                    chain.append(("method", name, self._arguments(")")))
                else:
                    chain.append(("property", name))
            elif text[self._at] == "[" and not self._is_inner:
                self._at += 1
                chain.append(("index", self._expression()))
                self._expect("]")
            elif text[self._at] == "[":
                # Inside a string a bracket may be plain text.
                self._budget.step()
                at, depth = self._at, self._depth
                try:
                    self._at += 1
                    index = self._expression()
                    self._expect("]")
                except TemplateError:
                    self._at, self._depth = at, depth
                    return chain
                chain.append(("index", index))
            else:
                break
        return chain

    # --- expressions --------------------------------------------------------------------------

    def _spaces(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _take(self, token: str) -> bool:
        self._spaces()
        if not self._text.startswith(token, self._at):
            return False
        self._at += len(token)
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise TemplateError(f"'{token}' is expected at character {self._at} of the template")

    def _expression(self, level: int = 0) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        self._descend()
        left = self._expression(level + 1)
        while (operator := self._operator(level)) is not None:  # pyrefly: ignore[non-convergent-recursion]
            left = (operator, left, self._expression(level + 1))
        self._depth -= 1
        return left

    def _operator(self, level: int) -> str | None:
        self._spaces()
        for symbol, *words in _LEVELS[level]:
            if self._text.startswith(symbol, self._at):
                self._at += len(symbol)
                return _NAMES.get(symbol, symbol)
            for word in words:
                end = self._at + len(word)
                if (
                    self._text.startswith(word, self._at)
                    and not self._text[end : end + 1].isalnum()
                ):
                    self._at = end
                    return _NAMES.get(symbol, symbol)
        return None

    def _unary(self) -> Expression:
        self._descend()
        try:
            self._spaces()
            text = self._text
            is_word = (
                text.startswith("not", self._at) and not text[self._at + 3 : self._at + 4].isalnum()
            )
            if is_word or text.startswith("!", self._at):
                self._at += 3 if is_word else 1
                return ("not", self._unary())
            if self._take("("):
                inner = self._expression()
                self._expect(")")
                return inner
            return self._primary()
        finally:
            self._depth -= 1

    def _primary(self) -> Expression:
        text = self._text
        char = text[self._at : self._at + 1]
        if char == "$":
            reference = self._reference()
            if reference is None:
                raise TemplateError(f"a reference is expected at character {self._at}")
            return ("reference", reference[0])
        if char in ("'", '"'):
            return self._string(char)
        if char == "[":
            self._at += 1
            return self._list()
        if char == "{":
            self._at += 1
            return ("map", self._pairs())
        if char.isdigit() or char == "-":
            return self._number()
        word = self._word() if self._is_letter(self._at) else ""
        if word not in _WORDS:
            raise TemplateError(f"a value is expected at character {self._at} of the template")
        return ("constant", _WORDS[word])

    def _string(self, quote: str) -> Expression:
        text, start = self._text, self._at + 1
        at, pieces = start, list[str]()
        while True:
            end = text.find(quote, at)
            if end < 0:
                raise TemplateError(f"a string has no end: character {start - 1}")
            pieces.append(text[at:end])
            if text[end + 1 : end + 2] != quote:
                break
            # Inside a string, two quotes stand for one.
            pieces.append(quote)
            at = end + 2
        self._at = end + 1
        content = "".join(pieces)
        if quote == "'" or not {"$", "#"} & set(content):
            return ("constant", content)
        return ("text", self._template_in(content))

    def _number(self) -> Expression:
        start = self._at
        self._at += self._text[start] == "-"
        while self._text[self._at : self._at + 1].isdigit():
            self._at += 1
        is_whole = True
        if self._text[self._at : self._at + 1] == "." and self._text[self._at + 1 :][:1].isdigit():
            is_whole = False
            self._at += 1
            while self._text[self._at : self._at + 1].isdigit():
                self._at += 1
        digits = self._text[start : self._at]
        try:
            if len(digits) > 19:
                raise ValueError
            return ("constant", int(digits) if is_whole else float(digits))
        except ValueError:
            raise TemplateError(f"a number is expected at character {start}") from None

    def _list(self) -> Expression:
        if self._take("]"):
            return ("list", [])
        first = self._expression()
        if self._take(".."):
            last = self._expression()
            self._expect("]")
            return ("range", first, last)
        items = [first]
        while self._take(","):
            items.append(self._expression())
        self._expect("]")
        return ("list", items)

    def _pairs(self) -> list[tuple[Expression, Expression]]:
        pairs: list[tuple[Expression, Expression]] = []
        if self._take("}"):
            return pairs
        while True:
            key = self._expression()
            self._expect(":")
            pairs.append((key, self._expression()))
            if self._take("}"):
                return pairs
            self._expect(",")

    def _arguments(self, end: str) -> list[Expression]:
        arguments: list[Expression] = []
        if self._take(end):
            return arguments
        while True:
            arguments.append(self._expression())
            if self._take(end):
                return arguments
            self._expect(",")


_SPECIAL = re.compile(r"[$#\\]")
_DIRECTIVES = ("set", "if", "elseif", "else", "end", "foreach", "break", "stop", "return")


class Parser(ExpressionReader):
    """Reads one template."""

    def parse(self) -> list[Node]:
        """Return the nodes of the whole template. Raises TemplateError."""
        nodes, ended_by = self._block(())
        if ended_by:
            raise TemplateError(f"#{ended_by} has nothing to end")
        return nodes

    # --- text and directives ----------------------------------------------------------------------

    def _block(self, ends: tuple[str, ...]) -> tuple[list[Node], str]:
        """Read up to and including one of the directives `ends`; return its name, or '' at the end of the text."""
        self._descend()
        nodes: list[Node] = []
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            if char == "\\" and text[self._at + 1 : self._at + 2] in ("$", "#"):
                nodes.append(("text", text[self._at + 1]))
                self._at += 2
            elif char == "$":
                nodes.append(self._reference_node())
            elif char == "#":
                name = self._directive_name()
                if name in ends or (name in ("end", "else", "elseif") and not ends):
                    self._depth -= 1
                    return nodes, name
                node = self._directive(name)
                if node is not None:
                    nodes.append(node)
            else:
                last = self._next_special()
                nodes.append(("text", text[self._at : last]))
                self._at = last
        if ends:
            raise TemplateError("a block of the template has no #end")
        self._depth -= 1
        return nodes, ""

    def _next_special(self) -> int:
        match = _SPECIAL.search(self._text, self._at + 1)
        return len(self._text) if match is None else match.start()

    def _directive_name(self) -> str:
        """Read a directive's name, or a whole comment; return '' for a lone `#`, and `comment` after a comment."""
        text, at = self._text, self._at
        if text.startswith("##", at):
            end = text.find("\n", at)
            self._at = len(text) if end < 0 else end + 1
            return "comment"
        if text.startswith("#*", at):
            end = text.find("*#", at + 2)
            self._at = len(text) if end < 0 else end + 2
            return "comment"
        is_braced = text.startswith("#{", at)
        start = at + (2 if is_braced else 1)
        last = start
        while last < len(text) and text[last].isalpha():
            last += 1
        name = text[start:last]
        # `#elsetext` begins with a directive too.
        if name not in _DIRECTIVES:
            name = next((keyword for keyword in ("else", "end") if name.startswith(keyword)), "")
            last = start + len(name)
        if name and is_braced:
            if not text.startswith("}", last):
                return ""
            last += 1
        if name:
            self._at = last
            if name in ("else", "end", "break", "stop", "return"):
                self._skip_line_end()
        return name

    def _directive(self, name: str) -> Node | None:
        if name == "comment":
            return None
        if not name:
            self._at += 1
            return ("text", "#")
        if name == "set":
            return self._set()
        if name == "if":
            return self._if()
        if name == "foreach":
            return self._foreach()
        if name == "break":
            return ("break",)
        return ("stop",)

    def _skip_line_end(self) -> None:
        at, text = self._at, self._text
        while at < len(text) and text[at] in " \t":
            at += 1
        if text.startswith("\r\n", at):
            self._at = at + 2
        elif text.startswith("\n", at):
            self._at = at + 1

    def _set(self) -> Node:
        self._expect("(")
        self._expect("$")
        is_braced = self._take("{")
        chain = self._chain()
        if is_braced:
            self._expect("}")
        self._expect("=")
        value = self._expression()
        self._expect(")")
        self._skip_line_end()
        return ("set", chain, value)

    def _condition(self) -> Expression:
        self._expect("(")
        condition = self._expression()
        self._expect(")")
        self._skip_line_end()
        return condition

    def _if(self) -> Node:
        branches: list[tuple[Expression | None, list[Node]]] = []
        condition: Expression | None = self._condition()
        while True:
            body, ended_by = self._block(("elseif", "else", "end"))
            branches.append((condition, body))
            if ended_by == "end":
                return ("if", branches)
            if condition is None:
                raise TemplateError(f"#{ended_by} follows #else")
            condition = self._condition() if ended_by == "elseif" else None

    def _foreach(self) -> Node:
        self._expect("(")
        self._expect("$")
        braced = self._take("{")
        name = self._word()
        if braced:
            self._expect("}")
        self._spaces()
        if self._word() != "in":
            raise TemplateError("#foreach needs the form #foreach($item in $items)")
        items = self._expression()
        self._expect(")")
        self._skip_line_end()
        body, _ = self._block(("end",))
        return ("foreach", name, items, body)

    def _reference_node(self) -> Node:
        start = self._at
        reference = self._reference()
        if reference is None:
            self._at = start + 1
            return ("text", "$")
        chain, is_quiet = reference
        return ("reference", chain, is_quiet, self._text[start : self._at])

    def _template_in(self, content: str) -> list[Node]:
        return Parser(content, self._budget, self._depth + 1).parse()
