"""Stands in for the boto3 clients of moto's States interpreter: its methods call operations of this cloud as a role."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import base64
import functools
import io
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

from headrace.aws.errors import AwsError
from headrace.aws.model import service_model
from headrace.core.ports import Acting
from headrace.fallback.current import CURRENT

SESSION = "headrace-stepfunctions"


def client_of_cloud(region: str, service: str, state_credentials: Any = None) -> Client:
    """Return what the interpreter calls a service with; takes what moto's function of that purpose takes."""
    try:
        service_model(service)
    except Exception as error:
        raise NotImplementedError(f"headrace has no service {service}") from error
    return Client(service, region, state_credentials.role_arn)


class Client:
    """A client of one service in one region, as a role."""

    def __init__(self, service: str, region: str, role_arn: str) -> None:
        self._service, self._region, self._role_arn = service, region, role_arn

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        operation = _operations(self._service).get(method)
        if operation is None:
            raise NotImplementedError(f"{self._service} has no operation {method}")
        return functools.partial(self.call, operation)

    def call(self, operation: str, **params: Any) -> dict[str, Any]:
        """Return an operation's output. Raises botocore's ClientError, whose class has the error's name."""
        from botocore.exceptions import ClientError

        if CURRENT.control is None:
            raise RuntimeError("headrace is starting or stopping")
        try:
            output = CURRENT.control.call(
                self._service,
                operation,
                fitted(self._service, operation, params),
                account=self._role_arn.split(":")[4],
                region=self._region,
                acting=Acting(self._role_arn, SESSION),
            )
        except AwsError as error:
            raise _exception_class(error.code, ClientError)(
                {
                    "Error": {"Code": error.code, "Message": error.message},
                    "ResponseMetadata": {"HTTPStatusCode": error.status, "RequestId": ""},
                },
                operation,
            ) from error
        return cast("dict[str, Any]", _plain(_with_streams(self._service, operation, output)))


def fitted(service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state's parameters as the operation takes them.

    A state names members with a capital letter, whatever the service's API does (documented:
    https://docs.aws.amazon.com/step-functions/latest/dg/supported-services-awssdk.html); it has text for what is
    bytes, and ISO text for a time.
    """
    shape: Any = service_model(service).operation_model(operation).input_shape
    return {} if shape is None else _fitted(shape, params)


def _fitted(shape: Any, value: Any) -> Any:
    kind = shape.type_name
    if kind == "structure" and isinstance(value, Mapping):
        members = {name.lower(): name for name in shape.members}
        found: dict[str, Any] = {}
        for name, inner in cast("Mapping[str, Any]", value).items():
            member = name if name in shape.members else members.get(name.lower(), name)
            known = shape.members.get(member)
            found[member] = inner if known is None else _fitted(known, inner)
        return found
    if kind == "list" and isinstance(value, list):
        return [_fitted(shape.member, each) for each in cast("list[Any]", value)]
    if kind == "map" and isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        return {name: _fitted(shape.value, each) for name, each in pairs.items()}
    if kind == "blob" and not isinstance(value, bytes | bytearray):
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        return text.encode()
    if kind == "timestamp" and isinstance(value, str):
        return datetime.fromisoformat(value)
    return value


def _plain(value: Any) -> Any:
    """Return an output as states pass it on: bytes as the text that they are, or in Base64 (assumed)."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    return value


@functools.cache
def _operations(service: str) -> dict[str, str]:
    from botocore import xform_name

    return {xform_name(name): name for name in service_model(service).operation_names}


@functools.lru_cache(maxsize=1000)
def _exception_class(code: str, base: type) -> Any:
    """Return a class of the error's name, which the interpreter shows as the error of an SDK integration."""
    return type(code.replace(".", ""), (base,), {})


def _with_streams(service: str, operation: str, output: dict[str, Any]) -> dict[str, Any]:
    from botocore.response import StreamingBody

    shape: Any = service_model(service).operation_model(operation).output_shape
    name = shape.serialization.get("payload") if shape is not None else None
    if name and isinstance(output.get(name), bytes):
        body = output[name]
        return {**output, name: StreamingBody(io.BytesIO(body), len(body))}
    return output
