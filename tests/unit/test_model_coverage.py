"""headrace is not behind the model: each operation and parameter of the installed botocore is built, or declared.

A nightly run installs the newest botocore first. When this fails: build what is new, or add the operation to
`not_built.json`; regenerate the shapes (`python -m scripts.generate_shapes`), and declare a parameter without effect in
the service's `fidelity.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.aws.calls.operation import service_model
from headrace.aws.protocols.owned_service import newer_parameters
from headrace.aws.protocols.service import ServiceApi
from tests.support.cloud import InProcessCloud

# Operations that are not in a service's ACTIONS; Lambda's InvokeAsync and InvokeWithResponseStream are answered raw.
NOT_BUILT: dict[str, list[str]] = json.loads(Path(__file__).with_name("not_built.json").read_text())


pytestmark = pytest.mark.skipif(
    "CreateQueue" not in service_model("kinesis").operation_names,
    reason="this botocore is older than the one that headrace is developed with",
)


@pytest.fixture(scope="module")
def apis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServiceApi]]:
    with InProcessCloud(tmp_path_factory.mktemp("model") / "data") as cloud:
        yield list(cloud.cloud.gateway.owned.values())


def test_every_operation_of_an_owned_service_is_built_or_declared(apis: list[ServiceApi]):
    new = {
        f"{api.name}:{operation}"
        for api in apis
        for operation in service_model(api.name).operation_names
        if operation not in api.by_name() and operation not in NOT_BUILT.get(api.name, ())
    }
    assert not new, f"botocore has operations that are neither built nor declared: {sorted(new)}"


def test_what_is_built_is_not_declared_as_missing(apis: list[ServiceApi]):
    both = {
        f"{api.name}:{operation}"
        for api in apis
        for operation in NOT_BUILT.get(api.name, ())
        if operation in api.by_name()
    }
    assert not both


def test_every_parameter_is_in_the_generated_shapes(apis: list[ServiceApi]):
    new = {
        f"{api.name}:{operation}.{parameter}"
        for api in apis
        for operation in api.by_name()
        if operation in service_model(api.name).operation_names
        for parameter in newer_parameters(api.name, operation)
    }
    assert not new, f"botocore has parameters that headrace does not know: {sorted(new)}"


def test_the_documentation_counts_kinesis_actions_as_the_model_does(apis: list[ServiceApi]):
    (built,) = (len(api.by_name()) for api in apis if api.name == "kinesis")
    text = (Path(__file__).parents[2] / "docs" / "services.md").read_text()
    assert f"{built} of {len(service_model('kinesis').operation_names)} actions" in text
