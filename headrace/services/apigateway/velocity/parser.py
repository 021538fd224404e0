"""Reads templates of the Velocity Template Language into nodes and expressions, which are plain tuples.

Nodes: ("text", text), ("reference", chain, is quiet, its source), ("set", chain, expression),
("if", [(condition or None, nodes)]), ("foreach", name, expression, nodes), ("break",), ("stop",).
Chains and expressions: see `velocity_expressions`.
"""

from __future__ import annotations

import re

from headrace.services.apigateway.velocity.expressions import (
    Expression,
    ExpressionReader,
    Node,
    TemplateError,
)

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
        self._deeper()
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
