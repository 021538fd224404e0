"""What Lambda does not act on is in its table of parameters. The table itself: `tests/unit/test_fidelity_tables.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import headrace.services.lambda_ as package
from headrace.aws.calls.operation import operation_model, operation_name
from headrace.services.lambda_.actions import ACTIONS
from headrace.services.lambda_.api import FIDELITY

BUILT = sorted(map(operation_name, ACTIONS))
SOURCE = "".join(
    path.read_text()
    for path in Path(package.__path__[0]).rglob("*.py")
    if path.name not in ("fidelity.py", "wording.py")
)


def members(operation: str) -> dict[str, Any]:
    shape = cast("Any", operation_model("lambda", operation)).input_shape
    return dict(shape.members) if shape is not None else {}


def not_acted_on() -> Iterator[tuple[str, str]]:
    """Yield the parameters that are in no table and that no line of the service names."""
    for operation in BUILT:
        for name, shape in members(operation).items():
            header = shape.serialization.get("name", "")
            named = f'"{name}"' in SOURCE or (header and header in SOURCE.lower())
            if name not in FIDELITY.get(operation, {}) and not named:
                yield operation, name


def test_every_parameter_is_acted_on_or_in_the_table():
    assert list(not_acted_on()) == []
