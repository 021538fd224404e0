"""What requests may hold is used or declared: nothing is dropped in silence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from headrace.services.emr import actions
from headrace.services.emr.api import FIDELITY

MODEL: Any = botocore.session.get_session().get_service_model("emr")
OPERATIONS = [action.__headrace_operation__ for action in actions.ACTIONS]
PACKAGE = Path(actions.__file__).parent.parent


def members(
    shape: Any, declared: dict[str, Any], within: frozenset[str], path: str = ""
) -> Iterator[str]:
    """Yield the paths of a request's members at every depth; of declared ones nothing."""
    if shape.type_name == "list":
        yield from members(shape.member, declared, within, path)
    if shape.type_name != "structure" or shape.name in within:
        return
    for name, member in shape.members.items():
        here = f"{path}{name}"
        if here not in declared:
            yield here
            yield from members(member, declared, within | {shape.name}, f"{here}.")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_member_of_a_request_is_read_or_declared(operation: str) -> None:
    source = "".join(p.read_text() for p in PACKAGE.rglob("*.py") if p.name != "fidelity.py")
    shape = MODEL.operation_model(operation).input_shape
    found = members(shape, dict(FIDELITY.get(operation, {})), frozenset()) if shape else ()
    assert [path for path in found if f'"{path.rpartition(".")[2]}"' not in source] == []


@pytest.mark.parametrize("operation", sorted(FIDELITY))
def test_what_is_declared_exists(operation: str) -> None:
    shape = MODEL.operation_model(operation).input_shape
    assert set(FIDELITY[operation]) <= set(members(shape, {}, frozenset()))
