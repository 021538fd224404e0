"""Writes docs/conformance/resource-types.md: the CloudFormation resource types and their ignored properties.

`python -m scripts.resource_types` writes it from the types themselves. With --check it writes nothing, and exits 1 when
the page is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.services.cloudformation.changes.imports import is_importable
from headrace.services.cloudformation.resources import TYPES, list_declared_types, resource_type
from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.resources.declared_calls import list_ignored_inside

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "conformance" / "resource-types.md"
HEAD = """# CloudFormation resource types

Written by `python -m scripts.resource_types` from the types; do not edit. A template with any other type is refused
before anything is created, with all of its unknown types in one sentence. Custom resources (`Custom::*`) run.

*Stored* properties have no effect, but the service's API shows them; *ignored* ones are dropped, and
`headrace up --strict` refuses them, also inside a property (`Rules.Action`). `/_headrace/fidelity` shows both for the
deployed stacks.

*Drift*: headrace reads back the current properties of these types and compares them. A property that the service does
not show counts as in the template (for declared types also a part of a property). A resource without any comparable
property, and every resource of another type, is NOT_CHECKED. *Imported*: headrace reads these types by identifier.
"""


def _row(kind: ResourceType, ignored_inside: Sequence[str] = ()) -> str:
    levels = {
        level: sorted(name for name, found in kind.properties.items() if found == level)
        for level in ("enforced", "stored", "ignored")
    }
    ignored = ", ".join(f"`{name}`" for name in (*levels["ignored"], *ignored_inside)) or "-"
    counts = " | ".join(str(len(levels[level])) for level in ("enforced", "stored"))
    drift = "checked" if kind.reading is not None else "-"
    imported = "yes" if is_importable(kind.name) else "-"
    return f"| `{kind.name}` | {counts} | {drift} | {imported} | {ignored} |"


def _table(kinds: Sequence[ResourceType]) -> list[str]:
    inside = {name: list_ignored_inside(each) for name, each in list_declared_types().items()}
    return [
        "| type | enforced | stored | drift | imported | ignored |",
        "|---|---|---|---|---|---|",
        *(
            _row(kind, inside.get(kind.name, ()))
            for kind in sorted(kinds, key=lambda kind: kind.name)
        ),
    ]


def page() -> str:
    """Return the whole page."""
    declared = [kind for name in list_declared_types() if (kind := resource_type(name)) is not None]
    lines = [
        HEAD,
        f"## Written by hand ({len(TYPES)})",
        "",
        "Types whose calls depend on more than a declaration says.",
        "",
        *_table(list(TYPES.values())),
        "",
        f"## Declared ({len(declared)})",
        "",
        "headrace creates, reads, updates and deletes the resource by the service's API.",
        "Required, read-only and replacing properties are from AWS's published schemas. If no call changes a property,",
        "headrace replaces the resource, or, if the name is the id, creates it again under the same name.",
        "",
        *_table(declared),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or with --check compare it."""
    if "--check" in arguments:
        return 0 if PAGE.exists() and PAGE.read_text() == page() else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
