"""CloudFormation's records: stacks, their resources and change sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

from headrace.aws.calls.operation import Call
from headrace.aws.shapes import cloudformation as shapes
from headrace.core.ports import CallerIdentity

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
        return CallerIdentity(self.caller_arn, self.caller_session) if self.caller_arn else None

    def note_caller(self, call: Call) -> None:
        """Store the caller of an operation."""
        acting = None if call.permit is None else call.permit.acting
        self.caller_arn = "" if acting is None else acting.arn
        self.caller_session = "" if acting is None else acting.session

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
