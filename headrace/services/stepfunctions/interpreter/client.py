"""Replaces the boto3 clients of moto's States interpreter: its methods call operations of this cloud with a role."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import base64
import functools
import io
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import service_model
from headrace.core.ports import CallerIdentity
from headrace.deliveries.parameter_types import convert_parameters
from headrace.moto.current_cloud import CURRENT

SESSION = "headrace-stepfunctions"
# SDKs name errors by their shapes; SQS's error has the query protocol's code instead.
_NAMES_OF_CODES = {"AWS.SimpleQueueService.NonExistentQueue": "QueueDoesNotExist"}


def client_of_cloud(region: str, service: str, state_credentials: Any = None) -> Client:
    """Return the interpreter's client of a service; it has the parameters of moto's function, which it replaces."""
    try:
        service_model(service)
    except Exception as error:
        raise NotImplementedError(f"headrace has no service {service}") from error
    return Client(service, region, state_credentials.role_arn)


class Client:
    """A client of one service in one region, with a role."""

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
                self._parameters(operation, params),
                account=self._role_arn.split(":")[4],
                region=self._region,
                acting=CallerIdentity(self._role_arn, SESSION),
            )
        except AwsError as error:
            raise _exception_class(_NAMES_OF_CODES.get(error.code, error.code), ClientError)(
                {
                    "Error": {"Code": error.code, "Message": error.message},
                    "ResponseMetadata": {"HTTPStatusCode": error.status, "RequestId": ""},
                },
                operation,
            ) from error
        return cast("dict[str, Any]", _plain(_with_streams(self._service, operation, output)))

    def _parameters(self, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters under the operation's names, with idempotency tokens added as an SDK does."""
        model: Any = service_model(self._service).operation_model(operation)
        tokens = {name: str(uuid.uuid4()) for name in model.idempotent_members}
        return {**tokens, **convert_parameters(self._service, operation, params)}


def _plain(value: Any) -> Any:
    """Return an output in the form that states pass on: bytes become text, or Base64 (assumed).

    Times are text (observed by others on AWS: github.com/floci-io/floci, docs/services/step-functions.md).
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _plain(element) for name, element in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(element) for element in cast("list[Any]", value)]
    return value


@functools.cache
def _operations(service: str) -> dict[str, str]:
    from botocore import xform_name

    return {xform_name(name): name for name in service_model(service).operation_names}


@functools.lru_cache(maxsize=1000)
def _exception_class(code: str, base: type) -> Any:
    """Return an exception class with the error's name, which the interpreter reports for an SDK integration."""
    return type(code.replace(".", ""), (base,), {})


def _with_streams(service: str, operation: str, output: dict[str, Any]) -> dict[str, Any]:
    from botocore.response import StreamingBody

    shape: Any = service_model(service).operation_model(operation).output_shape
    name = shape.serialization.get("payload") if shape is not None else None
    if name and isinstance(output.get(name), bytes):
        body = output[name]
        return {**output, name: StreamingBody(io.BytesIO(body), len(body))}
    return output
