"""Holds the exports of all templates of one run, so that a rule can follow Fn::ImportValue into another file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_templates: dict[str, dict[str, Any]] = {}
_exports: dict[str, tuple[str, Any]] = {}


def remember(templates: Mapping[str, dict[str, Any]]) -> None:
    """Store the templates that are linted together, by file name, and forget the former ones. Not thread-safe."""
    _templates.clear()
    _templates.update(templates)
    _exports.clear()
    for source, template in _templates.items():
        for output in _values(template.get("Outputs")):
            export: Any = output.get("Export")
            name: Any = cast("Any", export).get("Name") if isinstance(export, Mapping) else None
            if isinstance(name, str):
                _exports[name] = (source, output.get("Value"))


def find_export(name: str) -> tuple[str, Any] | None:
    """Return the file whose template exports `name`, and the value that it exports."""
    return _exports.get(name)


def together() -> dict[str, dict[str, Any]]:
    """Return all templates of this run by file name; none when cfn-lint runs the rules by itself."""
    return _templates


def _values(outputs: Any) -> list[dict[str, Any]]:
    if not isinstance(outputs, Mapping):
        return []
    named = cast("Mapping[str, Any]", outputs)
    return [cast("dict[str, Any]", one) for one in named.values() if isinstance(one, Mapping)]
