"""Custom resources: a Lambda function gets an event that says what to do, and answers by a PUT to a URL.

AWS queues the event and waits up to an hour for an answer, even when the function fails. headrace invokes the function
and watches it: when it fails, or cannot be loaded, before it has answered, the resource fails with its error at once.
When a function ends without an error and without an answer, headrace waits as AWS does: another may answer for it.

Source: the custom resource request and response objects in the CloudFormation user guide (documented).
"""

from __future__ import annotations

import json
import threading
from typing import Any, cast

from headrace.core.ports import FunctionNotFound, FunctionThrottled, InvokeResult
from headrace.services.cloudformation import limits
from headrace.services.cloudformation.custom_responses import TOO_LONG
from headrace.services.cloudformation.errors import Cancelled, ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
)

_THROTTLED_WAIT_S = 1.0
# Prefixes of the lines that Lambda adds to a function's log.
_PLATFORM = (
    "START RequestId:",
    "END RequestId:",
    "REPORT RequestId:",
    "INIT_START ",
    "INIT_REPORT ",
)
# The runtime's advice about other errors; it is long and is left out.
_WARNING = "LAMBDA_WARNING"
_LOG_LINES = 8
_LOG_CHARACTERS = 2000


def custom_resource_type(name: str) -> ResourceType:
    """Return the type of a custom resource called `name`."""

    def create(context: Context, properties: Properties) -> ResourceResult:
        return _ask(context, name, "Create", properties)

    def update(
        context: Context, physical_id: str, old: Properties, new: Properties
    ) -> ResourceResult:
        return _ask(context, name, "Update", new, physical_id, old)

    def delete(context: Context, physical_id: str, properties: Properties) -> None:
        _ask(context, name, "Delete", properties, physical_id)

    return ResourceType(
        name,
        {},
        create,
        delete,
        update=update,
        replace_on=frozenset({"ServiceToken"}),
        any_property=True,
    )


def _ask(
    context: Context,
    kind: str,
    request_type: str,
    properties: Properties,
    physical_id: str = "",
    old: Properties | None = None,
) -> ResourceResult:
    function = properties.get("ServiceToken")
    if not isinstance(function, str) or ":lambda:" not in function:
        raise ResourceFailed(
            f"headrace runs custom resources that are Lambda functions; ServiceToken is {function!r}"
        )
    timeout_s = _timeout_s(properties)
    token, url = context.responses.expect()
    event: dict[str, Any] = {
        "RequestType": request_type,
        "ServiceToken": function,
        "ResponseURL": url,
        "StackId": context.stack_id,
        "RequestId": context.ids.uuid(),
        "LogicalResourceId": context.logical_id,
        "ResourceType": kind,
        "ResourceProperties": _texts(properties),
    }
    if physical_id:
        event["PhysicalResourceId"] = physical_id
    else:
        # After a kill, whether the function created something is unknown: the rollback asks it to delete that.
        context.note_begun(context.generate_name(128))
    if old is not None:
        event["OldResourceProperties"] = _texts(old)
    invocation = _Invocation(context, function, json.dumps(event).encode())
    invocation.start()
    answer = context.responses.wait_or(token, timeout_s, invocation.check)
    if answer is None:
        raise ResourceFailed(
            "CloudFormation did not receive a response from your Custom Resource. Please check your logs for requestId"
            f" [{event['RequestId']}]. If you are using the Python cfn-response module, you may need to update your"
            " Lambda function code so that CloudFormation can attach the updated version."
        )
    if answer is TOO_LONG:
        raise ResourceFailed("Response object is too long.")
    if answer.get("Status") != "SUCCESS":
        physical_id_answered = answer.get("PhysicalResourceId")
        if physical_id_answered and not physical_id:
            # The function's answer has an id, so it may have created something: the rollback asks it to delete that, as
            # on AWS.
            context.note_made(str(physical_id_answered))
        raise ResourceFailed(
            f"Received response status [FAILED] from custom resource. Message returned: {answer.get('Reason', '')}"
        )
    data = answer.get("Data")
    attributes = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    return ResourceResult(str(answer.get("PhysicalResourceId") or physical_id), attributes)


def _timeout_s(properties: Properties) -> int:
    text = str(properties.get("ServiceTimeout", limits.CUSTOM_TIMEOUT_SECONDS))
    valid = (
        text.isascii() and text.isdigit() and len(text) <= len(str(limits.CUSTOM_TIMEOUT_SECONDS))
    )
    if not valid or not 1 <= int(text) <= limits.CUSTOM_TIMEOUT_SECONDS:
        raise ResourceFailed(
            f"ServiceTimeout must be an integer from 1 to {limits.CUSTOM_TIMEOUT_SECONDS}, not {text[:20]}"
        )
    return int(text)


class _Invocation(threading.Thread):
    """One invocation, on its own thread, and the reason of its failure."""

    def __init__(self, context: Context, function: str, payload: bytes) -> None:
        super().__init__(name=f"custom resource {context.logical_id}", daemon=True)
        self._context = context
        self._function = function
        self._payload = payload
        self._reason = ""

    def run(self) -> None:
        """Invoke the function, and retry while it is throttled."""
        try:
            while True:
                try:
                    result = self._context.functions.invoke(self._function, self._payload)
                except FunctionThrottled:
                    self._context.pause(_THROTTLED_WAIT_S)
                else:
                    self._reason = _failure(self._function, result)
                    return
        except Cancelled:
            return
        except FunctionNotFound:
            self._reason = (
                f"Function not found: {self._function} (Service: Lambda, Status Code: 404)"
            )
        except Exception as error:  # noqa: BLE001 - whatever the error, no answer will come
            self._reason = f"The function {self._function} could not be invoked: {error}"

    def check(self) -> None:
        """Raise ResourceFailed when the function has failed, Cancelled when the operation has been cancelled."""
        if self._reason:
            raise ResourceFailed(self._reason)
        if self._context.stop.is_set():
            raise Cancelled("Resource creation cancelled")


def _failure(function: str, result: InvokeResult) -> str:
    """Return why a function failed, with the last lines of its log; an empty text when it succeeded."""
    if result.function_error is None:
        return ""
    try:
        error: Any = json.loads(result.payload)
    except ValueError:
        error = {}
    members = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    kind, message = members.get("errorType"), members.get("errorMessage")
    shown = ": ".join(str(part) for part in (kind, message) if part) or result.function_error
    reason = f"The function {function} failed before it answered: {shown}"
    log = result.log_tail.decode("utf-8", "replace").splitlines()
    lines = [
        line.strip()
        for line in log
        if line.strip() and not line.startswith(_PLATFORM) and _WARNING not in line
    ]
    if lines:
        reason += f" Its log ends: {' | '.join(lines[-_LOG_LINES:])[-_LOG_CHARACTERS:]}"
    return reason


def _texts(value: Any) -> Any:
    """Return properties with every scalar as text, which is the form that a function gets."""
    if isinstance(value, dict):
        return {key: _texts(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_texts(item) for item in cast("list[Any]", value)]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
