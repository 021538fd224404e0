"""What S3 does not act on is in its table of parameters. Of the table itself: `tests/unit/test_fidelity_tables.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import headrace.services.s3 as package
from headrace.aws.calls.operation import operation_model, operation_name
from headrace.services.s3.actions import ACTIONS
from headrace.services.s3.api import FIDELITY

BUILT = sorted(map(operation_name, ACTIONS))
SOURCE = "".join(
    path.read_text()
    for path in Path(package.__path__[0]).rglob("*.py")
    if path.name != "fidelity.py"
)


def members(operation: str) -> dict[str, Any]:
    shape = cast("Any", operation_model("s3", operation)).input_shape
    return dict(shape.members) if shape is not None else {}


def not_acted_on() -> Iterator[tuple[str, str]]:
    """Yield the parameters that are in no table and that no line of the service names, nor their headers."""
    lower = SOURCE.lower()
    for operation in BUILT:
        for name, shape in members(operation).items():
            header = shape.serialization.get("name", "").lower()
            names = (name, name.removeprefix("CopySource"))
            if name in FIDELITY.get(operation, {}) or any(one in SOURCE for one in names):
                continue
            if not header or header not in lower:
                yield operation, name


def test_every_parameter_is_acted_on_or_in_the_table():
    assert list(not_acted_on()) == []
