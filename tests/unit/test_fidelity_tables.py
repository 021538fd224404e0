"""Tables of parameters are complete: what a service does not act on is in its table, and what is in it there is.

A parameter is acted on when a line of the service names it. S3's and Lambda's, whose parameters are headers too:
`tests/unit/s3/test_fidelity.py`, `tests/unit/lambda_/test_fidelity.py`; EMR's, at every depth:
`tests/unit/emr/test_fidelity.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.aws.calls.operation import operation_model, operation_name, service_model
from headrace.aws.protocols.owned_service import newer_parameters
from headrace.aws.shapes import MODULES, read_members

# botocore's name -> the package.
SERVICES = {
    "kinesis": "kinesis",
    "firehose": "firehose",
    "cloudformation": "cloudformation",
    "emr-serverless": "emr_serverless",
    "resourcegroupstaggingapi": "tagging",
    "cloudcontrol": "cloudcontrol",
    "redshift-data": "redshift_data",
}
# Their parameters are headers too: which are acted on is held by the file that the docstring names.
WITH_HEADERS = {"s3": "s3", "lambda": "lambda_"}
PACKAGES = {**SERVICES, **WITH_HEADERS}
# Refused by a rule over all names of their kind, not name by name.
REFUSED = {
    "firehose": ("DestinationConfiguration", "DestinationUpdate"),
    # The model allows one value.
    "kinesis": ("ScalingType",),
}


def package_of(service: str) -> str:
    return f"headrace.services.{PACKAGES[service]}"


def built(service: str) -> list[str]:
    actions = importlib.import_module(f"{package_of(service)}.actions").ACTIONS
    return sorted(map(operation_name, actions))


def table(service: str) -> dict[str, dict[str, str]]:
    return importlib.import_module(f"{package_of(service)}.api").FIDELITY


def members(service: str, operation: str) -> dict[str, Any]:
    shape = cast("Any", operation_model(service, operation)).input_shape
    newer = newer_parameters(service, operation)  # of a botocore that is not the one we write for
    known = shape.members if shape is not None else {}
    return {name: member for name, member in known.items() if name not in newer}


def not_acted_on(service: str) -> Iterator[str]:
    """Yield the parameters that are in no table, and that no line of the service names."""
    package = importlib.import_module(package_of(service))
    source = "".join(
        path.read_text()
        for path in Path(package.__path__[0]).rglob("*.py")
        if path.name not in ("api.py", "fidelity.py")
    )
    for operation in built(service):
        for name in members(service, operation):
            is_known = name in table(service).get(operation, {}) or f'"{name}"' in source
            if not is_known and not name.endswith(REFUSED.get(service, ())):
                yield f"{operation}.{name}"


@pytest.mark.parametrize("service", SERVICES)
def test_every_parameter_is_acted_on_or_in_the_table(service: str):
    assert list(not_acted_on(service)) == []


@pytest.mark.parametrize("service", PACKAGES)
def test_the_table_names_what_there_is(service: str):
    known = {operation: members(service, operation) for operation in built(service)}
    wrong = [
        f"{operation}.{path}"
        for operation, paths in table(service).items()
        for path in paths
        if path.partition(".")[0] not in known.get(operation, {})
    ]
    assert wrong == []


@pytest.mark.parametrize("service", PACKAGES)
def test_every_operation_has_the_shape_that_tells_what_is_newer(service: str):
    shapes = read_members(MODULES[service])
    inputs = {name: operation_model(service, name).input_shape for name in built(service)}
    missing = [
        name
        for name, shape in inputs.items()
        if shape and shape.members and not {f"{name}Input", shape.name} & shapes.keys()
    ]
    assert missing == []


@pytest.mark.parametrize("service", WITH_HEADERS)
def test_the_counts_are_those_of_the_page(service: str):
    operations = built(service)
    total = sum(len(members(service, operation)) for operation in operations)
    levels = [level for paths in table(service).values() for level in paths.values()]
    stored, ignored = levels.count("stored"), levels.count("ignored")
    page = Path(__file__).parents[2] / "docs" / "conformance" / f"{service}.md"
    sentence = (
        f"{len(operations)} of {len(service_model(service).operation_names)} operations are built; of their {total}"
        f" parameters {stored} are stored and {ignored} ignored."
    )
    assert sentence in page.read_text()
