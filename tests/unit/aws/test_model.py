"""Services' descriptions: in memory once for headrace, its botocore clients and moto, and without documentation."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any

import botocore.loaders
import pytest
from botocore.exceptions import DataNotFoundError, UnknownServiceError

from headrace.aws.calls.operation import Descriptions, LeanFiles, loader, service_description
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


@pytest.mark.parametrize("kind", ["service-2", "paginators-1", "waiters-2", "endpoint-rule-set-1"])
@pytest.mark.parametrize("service", ["kinesis", "s3", "iot-data", "Kinesis", "../data/s3", ".", ""])
def test_a_service_is_found_as_botocore_finds_it(service: str, kind: str):
    def outcome(model_loader: Any, *version: str) -> Any:
        try:
            return without_documentation(
                json.loads(json.dumps(model_loader.load_service_model(service, kind, *version)))
            )
        except (UnknownServiceError, DataNotFoundError) as error:
            return type(error), str(error)

    plain = botocore.loaders.Loader()
    assert outcome(Descriptions(file_loader=LeanFiles())) == outcome(plain)
    assert outcome(Descriptions(file_loader=LeanFiles()), "2013-12-02") == outcome(
        plain, "2013-12-02"
    )


def test_a_service_is_found_without_a_look_at_the_others(monkeypatch: pytest.MonkeyPatch):
    listed: list[str] = []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(str(path)) or listdir(path))
    Descriptions(file_loader=LeanFiles()).load_service_model("kinesis", "service-2")
    assert len(listed) <= 4
