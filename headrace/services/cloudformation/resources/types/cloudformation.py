"""Types of CloudFormation itself: custom resources, wait conditions, metadata, and settings without a service.

Custom resources: a Lambda function gets an event that says what to do, and answers by a PUT to a URL.

AWS queues the event and waits up to an hour for an answer, even when the function fails. headrace invokes the function
and watches it: when it fails, or cannot be loaded, before it has answered, the resource fails with its error at once.
When a function ends without an error and without an answer, headrace waits as AWS does: another may answer for it.

Source: the custom resource request and response objects in the CloudFormation user guide (documented).

Wait conditions, and the handles whose URLs receive the signals.

Types of settings that other resources name by an id, and whose own service nothing here answers.

They exist only as resources of their stack: they have an id and attributes, and no call shows their settings, which
therefore count as ignored.

CDK's metadata, the resource type without API calls.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast

from headrace.core.arn import make_arn
from headrace.core.ports import FunctionNotFound, FunctionThrottled, InvokeResult
from headrace.core.values import parse_json
from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import Cancelled, ResourceFailed, TemplateError
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    enforced,
    ignored,
    nothing_to_change,
    nothing_to_delete,
    stored,
)
from headrace.services.cloudformation.signals import (
    HANDLE,
    PATH,
    TOO_LONG,
    ExpectedSignals,
    check_condition,
    token_of,
    wait_for,
    whole_number,
)


def _create_metadata(context: Context, properties: Properties) -> ResourceResult:
    return ResourceResult(context.generate_name(64))


_SETTINGS_ONLY = "headrace keeps it with the stack only: no call shows it, and it has no effect"


def _kind(
    name: str,
    properties: Sequence[str],
    *,
    physical_id: str = "{uuid}",
    attributes: Mapping[str, str],
    fixed: Sequence[str] = (),
) -> ResourceType:
    """Return a type whose id is a form of `uuid`, `name` and the properties; attributes are forms of the id, too."""

    def result(context: Context, identifier: str, values: Properties) -> ResourceResult:
        filled = {
            name: _fill(form, context, values, identifier) for name, form in attributes.items()
        }
        return ResourceResult(identifier, filled)

    def create(context: Context, values: Properties) -> ResourceResult:
        return result(context, _fill(physical_id, context, values), values)

    def update(
        context: Context, identifier: str, old: Properties, new: Properties
    ) -> ResourceResult:
        return result(context, identifier, new)

    return ResourceType(
        name,
        ignored(*properties),
        create,
        nothing_to_delete,
        update=update,
        replace_on=frozenset(fixed),
        remark=lambda values: dict.fromkeys(values, _SETTINGS_ONLY),
    )


def _fill(form: str, context: Context, values: Properties, identifier: str = "") -> str:
    """Return a form with its fields; `SERVICE ...` of a form that begins with `arn ` becomes an ARN."""
    fields: dict[str, Any] = {"id": identifier, "account": context.account}
    if "{uuid}" in form:
        fields["uuid"] = context.ids.uuid()
    if "{name}" in form:
        named = (value for key, value in values.items() if key.endswith("Name"))
        fields["name"] = next(named, None) or context.generate_name(64)
    text = form.format(**fields, **{k: v for k, v in values.items() if k not in fields})
    if not text.startswith("arn "):
        return text
    _, service, resource = text.split(" ", 2)
    return make_arn(service, context.region, context.account, resource)


_CONDITION = "AWS::CloudFormation::WaitCondition"


def _open_handle(context: Context, properties: Properties) -> ResourceResult:
    token = context.ids.hex(32)
    return ResourceResult(f"{context.endpoint_url}{PATH}{token}", {"Id": token})


def _keep_handle(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    return ResourceResult(physical_id, {"Id": token_of(physical_id)})


def _close_handle(context: Context, physical_id: str, properties: Properties) -> None:
    context.signals.forget(token_of(physical_id))


def _wait(context: Context, properties: Properties) -> ResourceResult:
    name = make_arn(
        "cloudformation",
        context.region,
        context.account,
        f"{context.stack_id.rpartition(':')[2]}/{context.logical_id}",
    )
    if "Handle" not in properties:
        return ResourceResult(name, {"Data": "{}"})  # the CreationPolicy does the waiting
    if "Timeout" not in properties:
        raise ResourceFailed("Property Timeout cannot be empty.")  # assumed
    try:
        expected = ExpectedSignals(
            whole_number("Count", properties.get("Count", 1), 1, errors.SIGNALS),
            whole_number("Timeout", properties["Timeout"], 0, errors.WAIT_SECONDS),
        )
    except TemplateError as error:
        raise ResourceFailed(str(error)) from error
    context.note_made(name)
    received = wait_for(
        context.signals,
        token_of(str(properties["Handle"])),
        expected,
        monotonic_s=context.clock.monotonic_s,
        pause=context.pause,
        on_signal=lambda _: None,
    )
    check_condition(received, expected)
    data = {signal.unique_id: signal.data for signal in received}
    return ResourceResult(name, {"Data": json.dumps(data, separators=(",", ":"))})


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
        answers=True,
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
    text = str(properties.get("ServiceTimeout", errors.CUSTOM_TIMEOUT_SECONDS))
    valid = (
        text.isascii() and text.isdigit() and len(text) <= len(str(errors.CUSTOM_TIMEOUT_SECONDS))
    )
    if not valid or not 1 <= int(text) <= errors.CUSTOM_TIMEOUT_SECONDS:
        raise ResourceFailed(
            f"ServiceTimeout must be an integer from 1 to {errors.CUSTOM_TIMEOUT_SECONDS}, not {text[:20]}"
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
        error: Any = parse_json(result.payload)
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


TYPES = [
    ResourceType(HANDLE, {}, _open_handle, _close_handle, update=_keep_handle),
    ResourceType(
        _CONDITION,
        enforced("Count", "Handle", "Timeout"),
        _wait,
        nothing_to_delete,
        fixed=True,
    ),
    _kind("AWS::CloudFront::CachePolicy", ["CachePolicyConfig"], attributes={"Id": "{id}"}),
    _kind(
        "AWS::CloudFront::OriginRequestPolicy",
        ["OriginRequestPolicyConfig"],
        attributes={"Id": "{id}"},
    ),
    _kind(
        "AWS::CloudFront::ResponseHeadersPolicy",
        ["ResponseHeadersPolicyConfig"],
        attributes={"Id": "{id}"},
    ),
    _kind(
        "AWS::MSK::Configuration",
        ["Name", "KafkaVersionsList", "ServerProperties", "Description", "LatestRevision"],
        physical_id="arn kafka configuration/{Name}/{uuid}",
        attributes={"Arn": "{id}", "LatestRevision.Revision": "1"},
        fixed=["Name", "KafkaVersionsList"],
    ),
    _kind(
        "AWS::EventSchemas::Registry",
        ["RegistryName", "Description", "Tags"],
        physical_id="arn schemas registry/{name}",
        attributes={"RegistryArn": "{id}", "RegistryName": "{name}"},
        fixed=["RegistryName"],
    ),
    _kind(
        "AWS::EventSchemas::Schema",
        ["RegistryName", "SchemaName", "Type", "Content", "Description", "Tags"],
        physical_id="arn schemas schema/{RegistryName}/{uuid}",
        attributes={"SchemaArn": "{id}", "SchemaVersion": "1"},
        fixed=["RegistryName", "SchemaName"],
    ),
    _kind(
        "AWS::XRay::Group",
        ["GroupName", "FilterExpression", "InsightsConfiguration", "Tags"],
        physical_id="arn xray group/{name}/{uuid}",
        attributes={"GroupARN": "{id}"},
    ),
    _kind(
        "AWS::XRay::SamplingRule",
        ["SamplingRule", "SamplingRuleRecord", "SamplingRuleUpdate", "RuleName", "Tags"],
        physical_id="arn xray sampling-rule/{uuid}",
        attributes={"RuleARN": "{id}"},
    ),
    _kind(
        "AWS::IoT::Logging",
        ["AccountId", "DefaultLogLevel", "RoleArn", "EventConfigurations"],
        physical_id="{account}",
        attributes={},
        fixed=["AccountId"],
    ),
    ResourceType(
        "AWS::CDK::Metadata",
        stored("Analytics"),
        _create_metadata,
        nothing_to_delete,
        update=nothing_to_change,
    ),
]
