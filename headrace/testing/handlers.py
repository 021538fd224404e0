"""Runs Lambda handlers in this process: finds them, gives them a context, encodes answers as Lambda does."""

from __future__ import annotations

import importlib
import json
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from headrace.services.lambda_.errors import RESPONSE_PAYLOAD_BYTES
from headrace.services.lambda_.runtime.environment import SandboxSpec
from headrace.services.lambda_.runtime.messages import Invocation
from headrace.services.lambda_.runtime.platform_log import (
    ProcessBroken,
    answer_too_large,
    build_error_document,
)


class FunctionNotLoadable(Exception):
    """A handler cannot be imported; the text is one sentence that names it and says why."""


class LambdaContext:
    """The second argument of a handler. Source: lambda/latest/dg/python-context.html (documented)."""

    def __init__(
        self, invocation: Invocation, spec: SandboxSpec, log_stream: str, left_ms: Callable[[], int]
    ) -> None:
        self.aws_request_id = invocation.request_id
        self.invoked_function_arn = invocation.function_arn
        self.function_name = spec.name
        self.function_version = spec.version
        self.memory_limit_in_mb = str(spec.memory_mib)
        self.log_group_name = spec.log_group
        self.log_stream_name = log_stream
        self.identity: None = None
        self.client_context = (
            json.loads(invocation.client_context) if invocation.client_context else None
        )
        self._left_ms = left_ms

    def get_remaining_time_in_millis(self) -> int:
        """Return how long the function may still run."""
        return self._left_ms()


def handler_of(handler: str, folder: Path) -> Callable[[Any, Any], Any]:
    """Import a handler, `module.function` or `package/module.function`. Raises FunctionNotLoadable."""
    module_name, _, name = handler.rpartition(".")
    where = f"{handler} of {folder}"
    if not module_name or not name:
        raise FunctionNotLoadable(f"A handler is module.function, and {where} is not.")
    try:
        module = importlib.import_module(module_name.replace("/", "."))
    except (Exception, SystemExit) as error:
        raise FunctionNotLoadable(
            f"{where} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    member: Any = getattr(module, name, None)
    if not callable(member):
        raise FunctionNotLoadable(
            f"{where} is missing: the module {module_name} has no function {name}."
        )
    return member


def check_handler(handler: str, folder: Path) -> None:
    """Check that a handler's file exists. Raises FunctionNotLoadable."""
    if not folder.is_dir():
        raise FunctionNotLoadable(f"There is no folder {folder} with the code of {handler}.")
    module = folder / (handler.rpartition(".")[0].replace(".", "/"))
    if not (module.with_name(f"{module.name}.py").is_file() or (module / "__init__.py").is_file()):
        raise FunctionNotLoadable(
            f"{handler} of {folder} cannot be imported: {module}.py is not there."
        )


def not_loadable(error: FunctionNotLoadable) -> ProcessBroken:
    """Return the error of an environment whose handler cannot be imported."""
    return ProcessBroken(
        build_error_document("Runtime.ImportModuleError", str(error)),
        f"[ERROR] Runtime.ImportModuleError: {error}",
        error_type="Runtime.ImportModuleError",
    )


def error_payload(error: Exception, request_id: str) -> bytes:
    """Return an exception as the error document that the caller gets. Form: awslambdaric's `make_error` (observed)."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    document = {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "requestId": request_id,
        "stackTrace": traceback.format_list(frames),
    }
    return json.dumps(document).encode()


def log_line(error: Exception, now: str) -> str:
    """Return the line that an exception leaves in the function's log."""
    shown = "".join(traceback.format_exception(error)).strip()
    return f"[ERROR]\t{now}\t{type(error).__name__}: {error}\n{shown}"


def _number(value: object) -> float:
    """Return a Decimal as Lambda's runtime encodes it; DynamoDB's numbers are Decimals."""
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def encode_answer(answer: Any, request_id: str) -> tuple[bytes, str | None]:
    """Return the payload of a handler's answer and None, or an error document and `Unhandled`."""
    try:
        payload = json.dumps(answer, ensure_ascii=False, default=_number).encode()
    except (TypeError, ValueError) as error:
        message = f"Unable to marshal response: {error}"
        document: dict[str, Any] = {
            "errorMessage": message,
            "errorType": "Runtime.MarshalError",
            "requestId": request_id,
            "stackTrace": [],
        }
        return json.dumps(document).encode(), "Unhandled"
    if len(payload) > RESPONSE_PAYLOAD_BYTES:
        return answer_too_large(), "Unhandled"
    return payload, None
