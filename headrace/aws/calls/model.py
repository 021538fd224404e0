"""Reads botocore's service models: the one module that does.

Shapes are moto's subclasses of botocore's (moto's parsers and serializers need them); they are reached
through `headrace.aws.protocols.codec_moto`, the only file of this package that imports moto.
"""

from __future__ import annotations

import functools
from typing import Any

import botocore.loaders
from botocore.exceptions import UnknownServiceError
from botocore.model import OperationModel, ServiceModel


@functools.cache
def loader() -> botocore.loaders.Loader:
    """Return botocore's loader of service descriptions."""
    return botocore.loaders.Loader()


@functools.cache
def service_description(service: str) -> dict[str, Any]:
    """Return the parsed service-2.json of `service`. Raises botocore's UnknownServiceError."""
    return loader().load_service_model(service, "service-2")


@functools.cache
def service_model(service: str) -> ServiceModel:
    """Return botocore's model of `service`."""
    return ServiceModel(service_description(service), service_name=service)


@functools.cache
def operation_model(service: str, operation: str) -> OperationModel:
    """Return the model of one operation. Raises botocore's OperationNotFoundError."""
    return service_model(service).operation_model(operation)


def protocol_of(service: str) -> str:
    """Return the name of a service's protocol, such as `rest-xml`; `json` for an unknown service."""
    if service == "execute-api":
        return "rest-json"  # the APIs that users make; botocore has no model of them
    try:
        return str(service_model(service).metadata["protocol"])
    except UnknownServiceError:
        return "json"
