"""The table of IAM and STS names operations and parameters that there are."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.aws.calls.operation import operation_model
from headrace.moto import without_effect
from headrace.services.iam.answers import FIDELITY, NOTES

ROWS = [
    (service, operation, name)
    for service, table in FIDELITY.items()
    for operation, parameters in table.items()
    for name in parameters
]


@pytest.mark.parametrize(("service", "operation", "name"), ROWS)
def test_a_row_is_of_a_parameter(service: str, operation: str, name: str):
    shape: Any = operation_model(service, operation).input_shape
    # A name has dots when a member of a member is meant; a list stands for its elements.
    for part in name.split("."):
        while shape.type_name == "list":
            shape = shape.member
        assert part in shape.members
        shape = shape.members[part]


def test_a_note_is_of_a_row():
    rows = {f"{operation}.{name}" for _, operation, name in ROWS}
    rows |= {f"{row.operation}.{row.member}" for row in without_effect.ROWS}
    assert set(NOTES) <= rows
