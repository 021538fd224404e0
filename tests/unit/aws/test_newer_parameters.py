"""What only a newer botocore has is told as ignored, and refused by `--strict`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.aws.calls import operation
from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import operation_name
from headrace.aws.protocols import owned_service
from headrace.aws.protocols.owned_service import Strictness
from headrace.services.cloudformation.actions import ACTIONS


@pytest.fixture
def newer_botocore(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """CloudFormation's model as of a botocore that has two parameters more, one of them inside a list."""
    description: Any = copy.deepcopy(operation.service_description("cloudformation"))
    shapes = description["shapes"]
    shapes["ContinueUpdateRollbackInput"]["members"]["BrewTea"] = {"shape": "StackName"}
    shapes["Tag"]["members"]["Colour"] = {"shape": "StackName"}
    later = operation.ServiceModel(description, service_name="cloudformation")
    owned_service.newer_parameters.cache_clear()
    monkeypatch.setattr(
        owned_service, "operation_model", lambda _, name: later.operation_model(name)
    )
    yield
    owned_service.newer_parameters.cache_clear()


@pytest.mark.usefixtures("newer_botocore")
def test_newer_parameters_are_told_as_ignored():
    names = [operation_name(action) for action in ACTIONS]
    table = owned_service.with_newer(
        "cloudformation", names, {"CreateStack": {"RoleARN": "stored"}}
    )
    assert table["ContinueUpdateRollback"] == {"BrewTea": "ignored"}
    assert table["CreateStack"] == {"Tags[].Colour": "ignored", "RoleARN": "stored"}


@pytest.mark.usefixtures("newer_botocore")
def test_strict_refuses_newer_parameters():
    strictness = Strictness.of("cloudformation", ACTIONS, {})
    strictness.check("CreateStack", {"Tags": [{"Key": "a", "Value": "b"}]})
    with pytest.raises(AwsError, match="BrewTea"):
        strictness.check("ContinueUpdateRollback", {"BrewTea": "true"})
    with pytest.raises(AwsError, match=r"Tags\[\]\.Colour"):
        strictness.check("CreateStack", {"Tags": [{"Key": "a", "Colour": "b"}]})
