"""What transforms use: the stack's account, region and parameters, S3 objects, macros, AWS's managed policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TransformContext:
    """The stack that a template is expanded for.

    Attributes:
        account, region: the stack's.
        parameters: the values of the template's parameters, as text; defaults for those that are not given.
        lists: the names of the parameters that are lists; macros get them as lists (as AWS's examples do).
        read: returns the text of the object at an S3 address. Raises TemplateError.
        run_macro: (name of the macro, event) to its function's answer. Raises TemplateError.
        policies: returns the ARNs of AWS's managed policies by their names.
    """

    account: str
    region: str
    parameters: Mapping[str, str]
    lists: frozenset[str]
    read: Callable[[str], str]
    run_macro: Callable[[str, dict[str, Any]], dict[str, Any]]
    policies: Callable[[], dict[str, str]]

    def value_of(self, name: str) -> Any:
        """Return a parameter's value, text or a list of texts; None: there is no such parameter."""
        value = self.parameters.get(name)
        if value is None or name not in self.lists:
            return value
        return [item.strip() for item in value.split(",")] if value else []
