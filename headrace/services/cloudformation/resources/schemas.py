"""Reads the parts of AWS's resource schemas that headrace uses: `schemas.json`, and `aws_types.json`.

Source: the schemas that AWS publishes, as cfn-lint ships them; `python -m scripts.resource_schemas` writes the files.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("schemas.json")
_NAMES = Path(__file__).with_name("aws_types.json")


@functools.cache
def schemas() -> dict[str, dict[str, list[str]]]:
    """Return the schemas: type -> names of properties.

    All types have `required`, `primary` (the properties that identify a resource), `identifier` (the same, if none
    of them is read-only), and `createOnlyInside`: the paths, with slashes, of nested properties whose change replaces
    the resource, where a change of another part of their parent does not; `writeOnly`: the paths of properties that
    no read returns, with `*` for each item of a list; declared types also have `properties`, `createOnly` and
    `readOnly`.
    """
    return json.loads(_FILE.read_text())


@functools.cache
def aws_types() -> frozenset[str]:
    """Return the names of all AWS resource types in these schemas; newer types are missing."""
    return frozenset(json.loads(_NAMES.read_text()))


def list_names(kind: str, member: str) -> tuple[str, ...]:
    """Return the names in a schema's `member`; an empty set for a type without a schema."""
    schema: dict[str, Any] = schemas().get(kind, {})
    return tuple(schema.get(member, ()))
