"""Writes docs/conformance/resource-types.md: the CloudFormation resource types and their ignored properties.

`python -m scripts.resource_types` writes it from the types themselves. With --check it writes nothing, and exits 1 when
the page is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.services.cloudformation.imports import is_importable
from headrace.services.cloudformation.resources import TYPES, resource_type
from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.resources.tables import DECLARED

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "conformance" / "resource-types.md"
HEAD = """# CloudFormation resource types

Written by `python -m scripts.resource_types` from the types; do not edit. A template with any other type is refused
before anything is made, with all of its unknown types in one sentence. Custom resources (`Custom::*`) are run.

*Stored* properties are kept and shown by the service's own API, and nothing acts on them; *ignored* ones go nowhere,
and `headrace up --strict` refuses them. `/_headrace/fidelity` shows both for the stacks that are deployed.

*Drift* is checked of the types that say so: what their properties are now is read back. A property that the service
does not show, and of declared types also a part of one, counts as it is in the template; a resource of which nothing
can be compared, and any other type's, is NOT_CHECKED. *Imported* are the types that are read back by their identifier.
"""


def _row(kind: ResourceType) -> str:
    levels = {
        level: sorted(name for name, found in kind.properties.items() if found == level)
        for level in ("enforced", "stored", "ignored")
    }
    ignored = ", ".join(f"`{name}`" for name in levels["ignored"]) or "-"
    counts = " | ".join(str(len(levels[level])) for level in ("enforced", "stored"))
    drift = "checked" if kind.reading is not None else "-"
    imported = "yes" if is_importable(kind.name) else "-"
    return f"| `{kind.name}` | {counts} | {drift} | {imported} | {ignored} |"


def _table(kinds: Sequence[ResourceType]) -> list[str]:
    return [
        "| type | enforced | stored | drift | imported | ignored |",
        "|---|---|---|---|---|---|",
        *(_row(kind) for kind in sorted(kinds, key=lambda kind: kind.name)),
    ]


def page() -> str:
    """Return the whole page."""
    declared = [kind for each in DECLARED if (kind := resource_type(each.type)) is not None]
    lines = [
        HEAD,
        f"## Written by hand ({len(TYPES)})",
        "",
        "Of the services that headrace owns, and of those that streaming stacks lean on.",
        "",
        *_table(list(TYPES.values())),
        "",
        f"## Declared ({len(declared)})",
        "",
        "Of other services that moto runs in process: the resource is made, read, changed and deleted by the service's",
        "own API. Required, read-only and replacing properties are from AWS's published schemas. A property that no",
        "call changes makes a new resource, or, where the name is the id, the resource is made again under its name.",
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
