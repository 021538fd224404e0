"""Writes headrace/services/cloudformation/resources/schemas.json: what AWS's schemas say of resource types.

`python -m scripts.resource_schemas` reads them from cfn-lint, which brings AWS's published schemas of us-east-1. With
--check nothing is written: it exits 1 when the file is not what would be written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from headrace.services.cloudformation.resources import TYPES
from headrace.services.cloudformation.resources.tables import DECLARED

ROOT = Path(__file__).parent.parent
DECLARED_TYPES = {declared.type for declared in DECLARED}
FILE = ROOT / "headrace" / "services" / "cloudformation" / "resources" / "schemas.json"
REGION = "us-east-1"


def schema_of(name: str) -> dict[str, Any]:
    """Return the part of a type's schema that headrace goes by."""
    schema: Any = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, name).schema

    def names(member: str) -> list[str]:
        pointers: list[str] = schema.get(member) or []
        paths = [pointer.removeprefix("/properties/").split("/") for pointer in pointers]
        # A nested property that is read-only or makes a new resource says nothing of all the rest of it.
        return sorted(
            {".".join(path) for path in paths if member == "readOnlyProperties" or len(path) == 1}
        )

    identifier: list[str] = schema.get("primaryIdentifier") or []
    is_given = not set(identifier) & set(schema.get("readOnlyProperties") or [])
    needed = {
        "required": sorted(schema.get("required") or []),
        "primary": [path.removeprefix("/properties/") for path in identifier],
        "identifier": sorted(path.rpartition("/")[2] for path in identifier) if is_given else [],
    }
    if name not in DECLARED_TYPES:
        return needed
    return {
        **needed,
        "properties": sorted(schema["properties"]),
        "createOnly": names("createOnlyProperties"),
        "readOnly": names("readOnlyProperties"),
    }


def text() -> str:
    """Return what the file should be."""
    known = set(PROVIDER_SCHEMA_MANAGER.get_resource_types(REGION))
    kinds = sorted(known & {*TYPES, *DECLARED_TYPES})
    rows = [f"{json.dumps(kind)}: {json.dumps(schema_of(kind))}" for kind in kinds]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def main(arguments: Sequence[str]) -> int:
    """Write the file, or with --check compare it."""
    if "--check" in arguments:
        return 0 if FILE.exists() and FILE.read_text() == text() else 1
    FILE.write_text(text())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
