"""What a resource type is, and what it and the operations of stacks use of the cloud to make and change resources.

Takes snapshots of databases before a stack deletes them, if their policy is Snapshot.

Source: .../aws-attribute-deletionpolicy.html (documented): the types that have snapshots, and which of them have
Snapshot as their default policy. The form of a snapshot's name was observed in users' accounts.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from headrace.aws.calls.errors import AwsError
from headrace.core import system_tags
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import CallerIdentity, ControlPlane, FidelityLevel, FunctionInvoker
from headrace.core.values import get_list
from headrace.services.cloudformation.errors import Cancelled, ResourceFailed
from headrace.services.cloudformation.resources.schemas import (
    describe_mistakes,
    list_names,
    object_types,
)
from headrace.services.cloudformation.signals import Signals

Properties = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Context:
    """The stack and logical id of a resource that is being created, and what its type may call.

    Attributes:
        stop: set when the operation is cancelled; whoever waits for something checks it.
        acting: the caller identity for its API calls; None for the account itself.
        signals: what wait conditions wait for.
        tags: the stack's.
        system_tags: CloudFormation's own, `aws:cloudformation:...`; none outside a stack.
        note_made: stores the physical id of a resource that has been created, before the next call for it.
        note_begun: stores a physical id before the resource is created, in case of a kill.
        made_up: returns a generated name for the resource; after a kill, the name that was generated before.
    """

    control: ControlPlane
    clock: Clock
    ids: Ids
    account: str
    region: str
    stack_name: str
    stack_id: str
    logical_id: str
    tags: Mapping[str, str]
    endpoint_url: str
    responses: CustomResponses
    functions: FunctionInvoker
    stop: threading.Event
    note_made: Callable[[str], None]
    acting: CallerIdentity | None = None
    system_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    signals: Signals = field(default_factory=Signals)
    note_begun: Callable[[str], None] = lambda _: None
    made_up: Callable[[Callable[[], str]], str] = lambda make: make()

    def pause(self, seconds: float) -> None:
        """Wait; raise Cancelled when the operation is cancelled meanwhile."""
        if self.clock.wait(self.stop, seconds):
            raise Cancelled("Resource creation cancelled")

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Call an API in the stack's account and region. Raises AwsError."""
        with system_tags.may_set(self.system_tags):
            return self.control.call(
                service,
                operation,
                params,
                account=self.account,
                region=self.region,
                acting=self.acting,
            )

    def merge_tags(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return all tags of the resource: its stack's, its own (which win), and CloudFormation's."""
        return {**self.tags, **own, **self.system_tags}

    def delete_if_exists(
        self, service: str, operation: str, params: Mapping[str, Any], *codes: str
    ) -> None:
        """Call a delete; an error that the resource no longer exists (one of `codes`) is ignored."""
        try:
            self.call(service, operation, params)
        except AwsError as error:
            if error.code not in codes:
                raise

    def find_identifier(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        identifier: Any,
        member: str = "",
    ) -> str | None:
        """Return `identifier` when a read call finds it; with `member`, only when the answer's member is not empty.

        An empty document, which is Kinesis's answer without a policy, counts as empty.
        """
        if not identifier:
            return None
        try:
            answer = self.call(service, operation, params)
        except AwsError as error:
            if error.status >= 500:
                raise
            return None
        return None if member and answer.get(member) in (None, "", "{}") else str(identifier)

    def generate_name(self, longest: int, *, lower: bool = False) -> str:
        """Return a physical name of CloudFormation's form: stack, logical id, twelve characters."""
        return self.made_up(lambda: self._new_name(longest, lower=lower))

    def _new_name(self, longest: int, *, lower: bool) -> str:
        suffix = self.ids.alnum_upper(12)
        room = longest - len(suffix) - 2
        stack = self.stack_name
        logical = self.logical_id
        if len(stack) + len(logical) > room:
            logical = logical[: max(room // 2, room - len(stack))]
            stack = stack[: room - len(logical)]
        name = f"{stack}-{logical}-{suffix}"
        return re.sub(r"[^a-z0-9.-]", "", name.lower()).strip("-") if lower else name


class CustomResponses(Protocol):
    """Gives out the URLs to which custom resources answer, and waits for the answers."""

    def expect(self) -> tuple[str, str]:
        """Return (token, URL)."""
        ...

    def wait(self, token: str, timeout_s: float) -> dict[str, Any] | None:
        """Return the answer sent to the URL, or None after the timeout."""
        ...

    def wait_or(
        self, token: str, timeout_s: float, check: Callable[[], None]
    ) -> dict[str, Any] | None:
        """Wait as `wait` does, and call `check` repeatedly, which raises to end the wait."""
        ...


@dataclass(slots=True)
class ResourceResult:
    """The result of a create or update: the physical id, which Ref returns, and the attributes for GetAtt."""

    physical_id: str
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])


Create = Callable[[Context, Properties], ResourceResult]
Update = Callable[[Context, str, Properties, Properties], ResourceResult]
Delete = Callable[[Context, str, Properties], None]
Find = Callable[[Context, Properties], "str | None"]


class ReadableType(Protocol):
    """Reads the resources of a type back.

    Attributes:
        named: whether a resource's identifier is its physical id, which an import can use.
    """

    @property
    def named(self) -> bool:
        """See the class."""
        ...

    def read(
        self, context: Context, physical_id: str, expected: Properties
    ) -> dict[str, Any] | None:
        """Return the live values of the properties in `expected`, None for one that the resource does not have.

        A property that cannot be read is left out. Returns None when the resource does not exist. Raises AwsError.
        """
        ...

    def adopt(
        self, context: Context, physical_id: str, properties: Properties
    ) -> ResourceResult | None:
        """Return an existing resource as a stack stores it, unchanged; None: it does not exist. Raises AwsError."""
        ...


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path such as `Code.0.S3Bucket`; None when there is none."""
    for key in path.split("."):
        if isinstance(value, list):
            items = cast("list[Any]", value)
            value = items[int(key)] if key.isdigit() and int(key) < len(items) else None
        elif isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value).get(key)
        else:
            return None
    return value


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A resource type.

    Attributes:
        name: such as `AWS::SQS::Queue`.
        properties: every property that it takes, with its fidelity level.
        replace_on: properties whose change replaces the resource.
        may_replace: properties of which some changes replace the resource; `replaced_if` gets the old and new
            properties, and decides.
        any_property: whether it takes properties of any name.
        create, update, delete: the API calls. `update` of None: every change replaces the resource.
        remark: returns the properties whose values have another effect than on AWS, with a sentence about each.
        named_by: the path of the property that holds the physical name, such as ("QueueName",); empty: there is none.
        find: returns the identifier of an existing resource, where the service would not refuse to create it again.
        made: returns the physical id of a resource that was created just before a kill, where that is not its name.
        shared: a list property whose items another resource may also have, and the properties that are equal in both
            then; deleting one resource keeps the other's items.
        dropped: returns the paths inside properties that are ignored, such as `Code.ImageUri`.
        fixed: whether it can be neither changed nor replaced.
        reading: reads a resource back; None: its drift is not checked, and it cannot be imported.
        answers: whether an update may bring attributes that it did not have: what a function or a nested stack answers.
        put_back: creates a replaced resource again during a rollback, when its replacement took its name; None: the old
            one still exists.
    """

    name: str
    properties: Mapping[str, FidelityLevel]
    create: Create
    delete: Delete
    update: Update | None = None
    replace_on: frozenset[str] = frozenset()
    may_replace: frozenset[str] = frozenset()
    replaced_if: Callable[[Properties, Properties], bool] | None = None
    any_property: bool = False
    remark: Callable[[Properties], Mapping[str, str]] | None = None
    named_by: tuple[str, ...] = ()
    find: Find | None = None
    dropped: Callable[[Properties], Sequence[str]] | None = None
    shared: tuple[str, ...] = ()
    fixed: bool = False
    reading: ReadableType | None = None
    made: Find | None = None
    put_back: Create | None = None
    answers: bool = False

    def name_of(self, properties: Mapping[str, Any]) -> str:
        """Return the physical name in a template, or an empty text."""
        value: Any = properties if self.named_by else ""
        for key in self.named_by:
            value = cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else ""
        return str(value or "")

    def replaces(self, property_name: str) -> bool:
        """Whether a change of the property replaces the resource."""
        return self.update is None or property_name in self.replace_on

    def is_replaced(self, changed: Iterable[str], old: Properties, new: Properties) -> bool:
        """Whether these changes replace the resource."""
        by_name = any(self.replaces(name) for name in changed)
        return (
            by_name
            or any(value_at(old, path) != value_at(new, path) for path in self._fixed_inside)
            or (self.replaced_if is not None and self.replaced_if(old, new))
        )

    def may_be_replaced(self, property_name: str) -> bool:
        """Whether some changes of the property replace the resource, and others do not."""
        return property_name in self.may_replace or any(
            path.startswith(f"{property_name}.") for path in self._fixed_inside
        )

    @property
    def _fixed_inside(self) -> list[str]:
        """The paths of nested properties whose change replaces the resource."""
        return [path.replace("/", ".") for path in list_names(self.name, "createOnlyInside")]

    def check(self, logical_id: str, properties: Mapping[str, Any]) -> None:
        """Raise ResourceFailed for missing or unknown properties."""
        if refusal := describe_mistakes(self.name, properties):
            raise ResourceFailed(refusal)
        if self.any_property:
            return
        unknown = sorted(set(properties) - set(self.properties))
        if unknown:
            of_aws, _ = object_types(self.name).get("", ({}, []))
            # AWS's words are for what AWS does not have either.
            refusal = (
                f"headrace does not support the property {unknown[0]} of"
                if unknown[0] in of_aws
                else f"Encountered unsupported property {unknown[0]} in"
            )
            raise ResourceFailed(f"{refusal} {logical_id} ({self.name})")


def list_changed_properties(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the top-level properties that differ, sorted."""
    return [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def enforced(*names: str) -> dict[str, FidelityLevel]:
    """Return properties that headrace acts on."""
    return dict.fromkeys(names, "enforced")


def stored(*names: str) -> dict[str, FidelityLevel]:
    """Return properties that are stored and shown, without effect."""
    return dict.fromkeys(names, "stored")


def ignored(*names: str) -> dict[str, FidelityLevel]:
    """Return properties that are accepted and ignored."""
    return dict.fromkeys(names, "ignored")


def integers(properties: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a copy in which these top-level properties are numbers; templates often write them as text."""
    copy = dict(properties)
    for name in names:
        if isinstance(copy.get(name), str):
            copy[name] = int(copy[name])
    return copy


def boolean(value: Any) -> bool:
    """Return a template's boolean, which may be text."""
    return value in (True, "true", "True")


def attribute_text(value: Any) -> str:
    """Return a property as text, which the attributes of queues and subscriptions require."""
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def tag_list(properties: Mapping[str, Any], context: Context) -> list[dict[str, str]]:
    """Return the resource's tags in the API's form; see `Context.merge_tags`."""
    own = {tag["Key"]: str(tag.get("Value", "")) for tag in get_list(properties, "Tags")}
    return [{"Key": key, "Value": value} for key, value in context.merge_tags(own).items()]


def tag_map(properties: Mapping[str, Any], context: Context) -> dict[str, str]:
    """Return the tags of `tag_list` as a map."""
    return {tag["Key"]: tag["Value"] for tag in tag_list(properties, context)}


def without(properties: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a copy without these properties."""
    return {key: value for key, value in properties.items() if key not in names}


def nothing_to_change(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    """Update a resource that only its stack has: it stays as it is."""
    return ResourceResult(physical_id)


def nothing_to_delete(context: Context, physical_id: str, properties: Properties) -> None:
    """Do nothing: this resource has nothing to delete."""


SNAPSHOT = "Snapshot"
DATABASE = "AWS::RDS::DBInstance"
DATABASES = "AWS::RDS::DBCluster"
# All types that have snapshots on AWS; a template with types that headrace does not have is refused earlier.
WITH_SNAPSHOTS = frozenset(
    {
        "AWS::DocDB::DBCluster",
        "AWS::EC2::Volume",
        "AWS::ElastiCache::CacheCluster",
        "AWS::ElastiCache::ReplicationGroup",
        "AWS::Neptune::DBCluster",
        DATABASES,
        DATABASE,
        "AWS::Redshift::Cluster",
    }
)
# Service, operation, and the members that name the resource and the snapshot.
_CALLS = {
    "AWS::ElastiCache::CacheCluster": (
        "elasticache", "CreateSnapshot", "CacheClusterId", "SnapshotName",
    ),
    DATABASES: (
        "rds", "CreateDBClusterSnapshot", "DBClusterIdentifier", "DBClusterSnapshotIdentifier",
    ),
    DATABASE: ("rds", "CreateDBSnapshot", "DBInstanceIdentifier", "DBSnapshotIdentifier"),
    "AWS::Redshift::Cluster": (
        "redshift", "CreateClusterSnapshot", "ClusterIdentifier", "SnapshotIdentifier",
    ),
}  # fmt: skip
_LONGEST_NAME = 50


def take(context: Context, kind: str, physical_id: str) -> None:
    """Take a snapshot of a resource, unless it no longer exists. Raises AwsError."""
    service, operation, member, named = _CALLS[kind]
    suffix = context.ids.alnum_upper(12)
    name = f"{context.stack_name}-snapshot-{context.logical_id}"[: _LONGEST_NAME - len(suffix) - 1]
    params = {member: physical_id, named: f"{name.rstrip('-')}-{suffix}".lower()}
    try:
        context.call(service, operation, params)
    except AwsError as error:
        if "NotFound" not in error.code:
            raise


@dataclass(frozen=True, slots=True)
class Ports:
    """What all stack operations share.

    Attributes:
        endpoint_url: returns the cloud's address once its port is known.
        executor: returns the thread pool that works on the resources of one operation.
    """

    clock: Clock
    ids: Ids
    control: ControlPlane
    functions: FunctionInvoker
    responses: CustomResponses
    endpoint_url: Callable[[], str]
    executor: Callable[[], Executor]
    signals: Signals
