"""Tables of parameters are complete: what a service does not act on is in its table, and what is in it there is.

A parameter is acted on when a line of the service names it. S3's, whose parameters are headers too:
`tests/unit/s3/test_fidelity.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.aws.model import operation_model
from headrace.aws.operation import operation_name

# botocore's name -> the package.
SERVICES = {"kinesis": "kinesis", "firehose": "firehose"}
# Refused by a rule over all names of their kind, not name by name.
REFUSED = {
    "firehose": ("DestinationConfiguration", "DestinationUpdate"),
    # The model allows one value.
    "kinesis": ("ScalingType",),
}


def package_of(service: str) -> str:
    return f"headrace.services.{SERVICES[service]}"


def built(service: str) -> list[str]:
    actions = importlib.import_module(f"{package_of(service)}.actions").ACTIONS
    return sorted(map(operation_name, actions))


def table(service: str) -> dict[str, dict[str, str]]:
    return importlib.import_module(f"{package_of(service)}.fidelity").FIDELITY


def members(service: str, operation: str) -> dict[str, Any]:
    shape = cast("Any", operation_model(service, operation)).input_shape
    return dict(shape.members) if shape is not None else {}


def not_acted_on(service: str) -> Iterator[str]:
    """Yield the parameters that are in no table, and that no line of the service names."""
    package = importlib.import_module(package_of(service))
    source = "".join(
        path.read_text()
        for path in Path(package.__path__[0]).rglob("*.py")
        if path.name != "fidelity.py"
    )
    for operation in built(service):
        for name in members(service, operation):
            is_known = name in table(service).get(operation, {}) or f'"{name}"' in source
            if not is_known and not name.endswith(REFUSED[service]):
                yield f"{operation}.{name}"


@pytest.mark.parametrize("service", SERVICES)
def test_every_parameter_is_acted_on_or_in_the_table(service: str):
    assert list(not_acted_on(service)) == []


@pytest.mark.parametrize("service", SERVICES)
def test_the_table_names_what_there_is(service: str):
    wrong = [
        f"{operation}.{path}"
        for operation, paths in table(service).items()
        for path in paths
        if path.partition(".")[0] not in members(service, operation)
    ]
    assert wrong == []
