"""CloudFormation's records: stacks, their resources and change sets.

The details of a change set: which properties of a resource change, and why.

A change set has two views (recorded from AWS, tests/conformance/cloudformation). The view with property values compares
the properties' values before and after. In the view without them, a property also counts as changed when it reads any
attribute of a resource that changes in place: its detail is Dynamic. A property that refers to a parameter whose value
differs, or to a resource that is replaced, has a Static detail that names the cause.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict, cast

from headrace.aws.calls.operation import Call
from headrace.aws.shapes import cloudformation as shapes
from headrace.core.ports import CallerIdentity
from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.template.template import get_att_parts, sub_names, sub_parts

Change = dict[str, Any]


# The detail of a resource of which only the stack's tags change.
TAGS_DETAIL: Change = {
    "Target": {"Attribute": "Tags", "RequiresRecreation": "Never"},
    "Evaluation": "Static",
    "ChangeSource": "DirectModification",
}


@dataclass(frozen=True, slots=True)
class Causes:
    """The causes of other changes: changed parameters, replaced resources, resources changed in place."""

    parameters: Set[str]
    replaced: Set[str]
    modified: Set[str]


def property_details(
    kind: ResourceType,
    expressions: Mapping[str, Any],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    causes: Causes,
    *,
    with_values: bool,
) -> list[Change]:
    """Return the details of a resource's properties; an empty list when nothing changes.

    Args:
        kind: the resource's type.
        expressions: the properties as the new template writes them.
        before: the current values.
        after: the values that the new template gives.
        causes: what else changes.
        with_values: which of the two views.
    """
    details: list[Change] = []
    for name in sorted({*before, *after}):
        target = _target(kind, name, before, after)
        read = list(_reads(expressions.get(name)))
        if before.get(name) != after.get(name):
            details += _of_changed(target, read, causes, with_values=with_values)
        if not with_values:
            details += [
                _detail(target, "Dynamic", source, cause)
                for resource, source, cause in read
                if resource in causes.modified and source == "ResourceAttribute"
            ]
    return details


def _of_changed(
    target: Change, read: list[tuple[str, str, str]], causes: Causes, *, with_values: bool
) -> list[Change]:
    named = [
        _detail(target, "Static", source, cause)
        for name, source, cause in read
        if name in (causes.parameters if source == "ParameterReference" else causes.replaced)
    ]
    if not named:
        return [_detail(target, "Static", "DirectModification")]
    if not with_values and all(d["ChangeSource"] != "ParameterReference" for d in named):
        return named
    return [_detail(target, "Dynamic", "DirectModification"), *named]


def attribute_detail(attribute: str, before: Any, after: Any) -> Change:
    """Return the detail of a resource's Metadata, DeletionPolicy or another attribute outside its Properties."""
    target: Change = {
        "Attribute": attribute,
        "Path": f"/{attribute}",
        "RequiresRecreation": "Never",
        "AttributeChangeType": _kind_of_change(before is not None, after is not None),
        **({} if before is None else {"BeforeValue": _text(before)}),
        **({} if after is None else {"AfterValue": _text(after)}),
    }
    return _detail(target, "Static", "DirectModification")


def replacement(details: list[Change]) -> str:
    """Return `Replacement` of a resource with these details (documented: API_ResourceChange)."""
    recreating = [d for d in details if d["Target"]["RequiresRecreation"] == "Always"]
    if any(detail["Evaluation"] == "Static" for detail in recreating):
        return "True"
    perhaps = any(d["Target"]["RequiresRecreation"] == "Conditionally" for d in details)
    return "Conditional" if recreating or perhaps else "False"


def remove_values(change: Change) -> Change:
    """Return a change in the view without property values."""
    shown = {key: value for key, value in change.items() if not key.endswith("Context")}
    kept = ("Attribute", "Name", "RequiresRecreation")
    shown["Details"] = [
        {
            **detail,
            "Target": {key: detail["Target"][key] for key in kept if key in detail["Target"]},
        }
        for detail in change["Details"]
    ]
    return shown


def _recreation(kind: ResourceType, name: str) -> str:
    if kind.replaces(name):
        return "Always"
    return "Conditionally" if kind.may_be_replaced(name) else "Never"


def _target(
    kind: ResourceType, name: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Change:
    return {
        "Attribute": "Properties",
        "Name": name,
        "Path": f"/Properties/{name}",
        "RequiresRecreation": _recreation(kind, name),
        "AttributeChangeType": _kind_of_change(name in before, name in after),
        **({"BeforeValue": _text(before[name])} if name in before else {}),
        **({"AfterValue": _text(after[name])} if name in after else {}),
    }


def _kind_of_change(was: bool, will_be: bool) -> str:
    return "Modify" if was and will_be else "Remove" if was else "Add"


def _detail(target: Change, evaluation: str, source: str, cause: str = "") -> Change:
    return {
        "Target": target,
        "Evaluation": evaluation,
        "ChangeSource": source,
        **({"CausingEntity": cause} if cause else {}),
    }


def _reads(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield (name, change source, causing entity) for each name that an expression reads; a Ref may be either kind."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _reads(item)
    if not isinstance(value, dict):
        return
    mapping = cast("dict[str, Any]", value)
    for key, item in mapping.items():
        if key == "Ref" and isinstance(item, str):
            yield from _read_name(item)
        elif key == "Fn::GetAtt":
            name, attribute = get_att_parts(item)
            if isinstance(attribute, str):
                yield name, "ResourceAttribute", f"{name}.{attribute}"
            else:
                yield name, "ResourceAttribute", name
                yield from _reads(attribute)
        elif key == "Fn::Sub":
            text, variables = sub_parts(item)
            for name in sub_names(text):
                if name not in variables:
                    yield from _read_name(name)
            yield from _reads(list(variables.values()))
        else:
            yield from _reads(item)


def _read_name(name: str) -> Iterator[tuple[str, str, str]]:
    resource, dot, _ = name.partition(".")
    if dot:
        yield resource, "ResourceAttribute", name
    else:
        yield name, "ParameterReference", name
        yield name, "ResourceReference", name


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


# The session name with which CloudFormation assumes a stack's role (observed in CloudTrail by many users).
ROLE_SESSION = "AWSCloudFormation"
IN_PROGRESS = "_IN_PROGRESS"
STACK_TYPE = "AWS::CloudFormation::Stack"
EXECUTED = "EXECUTE_COMPLETE"
# Deletion policies that leave a resource without its stack.
RETAINING = ("Retain", "RetainExceptOnCreate")


class ParameterValue(TypedDict):
    """A parameter's value, as a stack keeps it; `resolved`: what is at the name in the parameter store."""

    value: str
    no_echo: bool
    resolved: NotRequired[str | None]


class Drift(TypedDict):
    """AWS's StackResourceDrift without its time."""

    StackId: str
    LogicalResourceId: str
    PhysicalResourceId: str
    ResourceType: str
    StackResourceDriftStatus: str
    ExpectedProperties: NotRequired[str]
    ActualProperties: NotRequired[str]
    PropertyDifferences: NotRequired[list[shapes.PropertyDifference]]


class DetectedDrift(Drift):
    """AWS's StackResourceDrift, its time in milliseconds since 1970."""

    Timestamp: int


@dataclass(slots=True)
class Resource:
    """A resource of a stack: its last applied properties, and the attributes that GetAtt returns."""

    logical_id: str
    type: str
    status: str
    physical_id: str = ""
    reason: str = ""
    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    depends_on: list[str] = field(default_factory=list[str])
    deletion_policy: str = "Delete"
    replace_policy: str = "Delete"
    definition: dict[str, Any] = field(default_factory=dict[str, Any])
    updated_ms: int = 0
    # Its Metadata, evaluated.
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    # The last drift detection's result: a StackResourceDrift whose time is in milliseconds; empty: none was made.
    drift: dict[str, Any] = field(default_factory=dict[str, Any])
    # Whether the stack imported it: a rollback of the import leaves it unchanged.
    imported: bool = False


@dataclass(slots=True)
class CreationNotes:
    """The calls made to create a resource whose physical id is not stored yet.

    Attributes:
        names: the random parts of its generated names, in order.
        calls: the calls that have changed something, in order: service, operation and, where it is known, answer.
    """

    names: list[str] = field(default_factory=list[str])
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(slots=True)
class Stack:
    """A stack. `previous` is its state before an update, until the update's clean-up is done."""

    stack_id: str
    name: str
    account: str
    region: str
    status: str
    created_ms: int
    reason: str = ""
    updated_ms: int | None = None
    deleted_ms: int | None = None
    body: str = ""
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    capabilities: list[str] = field(default_factory=list[str])
    notification_arns: list[str] = field(default_factory=list[str])
    rollback_configuration: dict[str, Any] = field(default_factory=dict[str, Any])
    role_arn: str = ""
    # The caller of the last operation, who creates resources without a role; empty for the account itself.
    caller_arn: str = ""
    caller_session: str = ""
    # The policies that limit the caller's session.
    caller_policy: str = ""
    caller_policy_arns: list[str] = field(default_factory=list[str])
    termination_protection: bool = False
    disable_rollback: bool = False
    on_failure: str = "ROLLBACK"
    timeout_minutes: int = 0
    # The token of the operation's request, which its events carry.
    request_token: str = ""
    change_set_id: str = ""
    policy: str = ""
    # The policy of the update in progress, and the temporary one that overrides it for this update.
    enforced_policy: str = ""
    temporary_policy: str = ""
    # Whether a rollback deletes what the operation created, whatever its deletion policy.
    retain_except_on_create: bool = False
    # Whether resources that cannot be deleted are dropped from the stack.
    force_delete: bool = False
    # The text from which transforms produced `body`; empty without transforms.
    original_body: str = ""
    outputs: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    imports: list[str] = field(default_factory=list[str])
    resources: dict[str, Resource] = field(default_factory=dict[str, Resource])
    # Resources that an update replaced or removed, and that its clean-up has still to delete.
    obsolete: list[Resource] = field(default_factory=list[Resource])
    previous: dict[str, Any] | None = None
    drift_status: str = "NOT_CHECKED"
    drift_checked_ms: int | None = None
    # The resources that the operation imports: logical id -> physical id.
    importing: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def acting(self) -> CallerIdentity | None:
        """The identity that creates its resources: its role, else the last caller; None for the account itself."""
        if self.role_arn:
            return CallerIdentity(self.role_arn, ROLE_SESSION)
        if not self.caller_arn:
            return None
        return CallerIdentity(
            self.caller_arn,
            self.caller_session,
            policy=self.caller_policy,
            policy_arns=tuple(self.caller_policy_arns),
        )

    def note_caller(self, call: Call) -> None:
        """Store the caller of an operation."""
        acting = None if call.permit is None else call.permit.acting
        self.caller_arn = "" if acting is None else acting.arn
        self.caller_session = "" if acting is None else acting.session
        self.caller_policy = "" if acting is None else acting.policy
        self.caller_policy_arns = [] if acting is None else list(acting.policy_arns)

    @property
    def in_progress(self) -> bool:
        """Whether an operation on the stack is in progress."""
        return self.status.endswith(IN_PROGRESS) and self.status != "REVIEW_IN_PROGRESS"

    @property
    def exists(self) -> bool:
        """Whether the stack has not been deleted."""
        return self.status != "DELETE_COMPLETE"


@dataclass(slots=True)
class DriftDetection:
    """The result of a stack's drift detection."""

    detection_id: str
    stack_id: str
    account: str
    region: str
    status: str
    drift_status: str
    made_ms: int
    reason: str = ""
    drifted: int = 0


@dataclass(slots=True)
class ChangeSet:
    """A change set: the changes that a template would make to a stack."""

    change_set_id: str
    name: str
    stack_id: str
    stack_name: str
    type: str
    created_ms: int
    body: str
    status: str = "CREATE_COMPLETE"
    reason: str = ""
    execution_status: str = "AVAILABLE"
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    capabilities: list[str] = field(default_factory=list[str])
    notification_arns: list[str] = field(default_factory=list[str])
    rollback_configuration: dict[str, Any] = field(default_factory=dict[str, Any])
    role_arn: str = ""
    on_failure: str = ""
    deployment_config: dict[str, Any] = field(default_factory=dict[str, Any])
    # The two views of the changes: with property values, and without.
    changes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    original_body: str = ""
    plain_changes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    # Why a property's value is missing in the view with values.
    values_warning: str = ""
    include_nested_stacks: bool = False
    importing: dict[str, str] = field(default_factory=dict[str, str])
    imports_existing: bool = False
    client_token: str = ""
    # For a REVERT_DRIFT change set: its mode, the stack's drift status, and the live properties of drifted resources at
    # its creation; None: the resource was deleted.
    deployment_mode: str = ""
    drift_status: str = ""
    live: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_executed(self) -> bool:
        """Whether it was executed: then it can be described, but is not listed."""
        return self.execution_status == EXECUTED
