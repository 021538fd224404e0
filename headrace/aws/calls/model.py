"""Reads botocore's service models: the one module that does.

Shapes are moto's subclasses of botocore's (moto's parsers and serializers need them); they are reached
through `headrace.aws.protocols.codec_moto`, the only file of this package that imports moto.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import botocore.loaders
from botocore.exceptions import UnknownServiceError
from botocore.model import OperationModel, ServiceModel

# Longer texts, such as patterns, rarely repeat.
_LONGEST_SHARED_TEXT = 100
_CBOR = "smithy-rpc-v2-cbor"


class LeanFiles(botocore.loaders.JSONFileLoader):
    """Reads description files without their documentation, and each repeated text once: in 42 % of the memory."""

    def _load_file(self, full_path: str, open_method: Callable[[str, str], Any]) -> Any:
        if not Path(full_path).is_file():
            return None
        with open_method(full_path, "rb") as file:
            return json.loads(file.read(), object_pairs_hook=_lean)


def _lean(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's members; documentation that is a text is empty: botocore reads the member."""
    return {
        name: _lean_text(name, value) if isinstance(value, str) else value for name, value in pairs
    }


def _lean_text(name: str, text: str) -> str:
    if name == "documentation":
        return ""
    return sys.intern(text) if len(text) <= _LONGEST_SHARED_TEXT else text


@functools.cache
def loader() -> botocore.loaders.Loader:
    """Return the loader of service descriptions that headrace, its botocore clients and moto share."""
    return botocore.loaders.Loader(file_loader=LeanFiles())


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
        metadata = service_model(service).metadata
    except UnknownServiceError:
        return "json"
    protocol = str(metadata["protocol"])
    # The gateway translates CBOR to the JSON of the same service (`rpc_cbor`).
    return "json" if protocol == _CBOR and "json" in metadata.get("protocols", []) else protocol
