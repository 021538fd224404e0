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

    All types have `required`, `primary` (the properties that name a resource) and `identifier` (the same, where none of
    them is read-only); declared ones also `properties`, `createOnly` and `readOnly`.
    """
    return json.loads(_FILE.read_text())


@functools.cache
def aws_types() -> frozenset[str]:
    """Return the names of all resource types that AWS has, by its schemas; newer types are not among them."""
    return frozenset(json.loads(_NAMES.read_text()))


def named_in(kind: str, member: str) -> tuple[str, ...]:
    """Return the names that a type's schema has in `member`; none for a type without a schema."""
    schema: dict[str, Any] = schemas().get(kind, {})
    return tuple(schema.get(member, ()))
