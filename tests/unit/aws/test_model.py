"""Services' descriptions: in memory once for headrace, its botocore clients and moto, and without documentation."""

from __future__ import annotations

import importlib
import json
from typing import Any

import botocore.loaders
import pytest

from headrace.aws.calls.operation import loader, service_description
from headrace.aws.protocols.moto_imports import load_moto


def without_documentation(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: ""
            if name == "documentation" and isinstance(member, str)
            else without_documentation(member)
            for name, member in value.items()
        }
    return [without_documentation(one) for one in value] if isinstance(value, list) else value


def moto_loader() -> Any:
    load_moto()
    utils: Any = importlib.import_module("moto.core.utils")
    return utils.create_loader()


# Glue and API Gateway have members that are named documentation.
@pytest.mark.parametrize("service", ["kinesis", "logs", "apigateway", "glue"])
def test_only_the_documentation_is_empty(service: str):
    plain = botocore.loaders.Loader().load_service_model(service, "service-2")
    assert service_description(service) == without_documentation(json.loads(json.dumps(plain)))


def test_moto_has_the_same_description_as_headrace():
    assert moto_loader().load_service_model("logs", "service-2") is service_description("logs")
    assert loader().load_service_model("logs", "service-2") is service_description("logs")


def test_moto_keeps_its_additions():
    own = moto_loader().load_service_model("sqs", "service-2")
    assert own != service_description("sqs")
    assert own["shapes"].keys() >= service_description("sqs")["shapes"].keys()
