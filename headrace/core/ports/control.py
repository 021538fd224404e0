"""The ports of control: any operation of this cloud by its name, who may ask, and single resources.

A service acts under an identity; a job gets credentials. Cloud Control uses CloudFormation's resource types by a
protocol from here, without importing CloudFormation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from headrace.core.arn import make_arn


# A tuple is hashed and compared without Python's help: with each invocation of a function.
class CallerIdentity(NamedTuple):
    """The identity under which a service calls another in process, without a signed request.

    Attributes:
        arn: the ARN of a role or user, or the name of a service such as `events.amazonaws.com`.
        session: the name of a role's session.
        source_arn: the resource for which a service acts: the condition key aws:SourceArn.
        source_account: the account of that resource when its ARN names none, such as a bucket's.
        policy, policy_arns: the policies that limit the session, as they were passed to AssumeRole.
    """

    arn: str
    session: str = ""
    source_arn: str = ""
    source_account: str = ""
    policy: str = ""
    policy_arns: tuple[str, ...] = ()

    @property
    def caller_arn(self) -> str:
        """The ARN that GetCallerIdentity says: of a role its session's, without the role's path."""
        head, _, role = self.arn.partition(":role/")
        if not role or not self.session:
            return self.arn
        name = role.rsplit("/", 1)[-1]
        return f"{head.replace(':iam:', ':sts:', 1)}:assumed-role/{name}/{self.session}"


# Values of condition keys.
Keys = Mapping[str, tuple[str, ...]]


class Guard(Protocol):
    """Decides whether a service may do something on behalf of a role or a user. Never blocks for long."""

    def denial(
        self, acting: CallerIdentity, action: str, resource: str, context: Keys | None = None
    ) -> str:
        """Return AWS's sentence that refuses an action, such as `kinesis:GetRecords`; empty when it is allowed.

        Empty too when a refusal is only noted (`--iam report`). After the first call it costs one dictionary lookup.
        `context`: further condition keys, in lower case, beyond those of the caller and the resource.
        """
        ...

    def note(self, acting: CallerIdentity, action: str, resource: str) -> None:
        """Note an action for the report without refusing it, even with `--iam enforce`. Never blocks."""
        ...


class NoGuard:
    """A `Guard` that allows everything, for services that are built without a cloud."""

    def denial(
        self, acting: CallerIdentity, action: str, resource: str, context: Keys | None = None
    ) -> str:
        """See `Guard.denial`."""
        return ""

    def note(self, acting: CallerIdentity, action: str, resource: str) -> None:
        """See `Guard.note`."""


# Takes an account and a principal's ARN or unique id; returns whether IAM has it. Policies name principals.
PrincipalCheck = Callable[[str, str], bool]


def accept_principal(account: str, name: str) -> bool:
    """Accept every principal: the check of services that are built without a cloud."""
    return True


class KeyStates(Protocol):
    """The KMS keys of a cloud. Thread-safe."""

    @property
    def keys_version(self) -> int:
        """A number that grows with each change of a key."""
        ...

    def state_of_key(self, key_id: str, account: str, region: str) -> tuple[str, str]:
        """Return a key's ARN and its state, such as `Enabled`; "" and "" when it does not exist.

        `key_id`: an id, an alias or an ARN.
        """
        ...


class AnyKeys:
    """The `KeyStates` of a cloud without KMS: every key exists and is enabled."""

    keys_version = 0

    def state_of_key(self, key_id: str, account: str, region: str) -> tuple[str, str]:
        """See `KeyStates.state_of_key`."""
        if key_id.startswith("arn:"):
            return key_id, "Enabled"
        name = key_id if "alias/" in key_id else f"key/{key_id}"
        return make_arn("kms", region, account, name), "Enabled"


class ResourceRefused(Exception):
    """A resource could not be made, changed or deleted.

    Attributes:
        code: AWS's HandlerErrorCode, such as `AlreadyExists`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ResourceCancelled(Exception):
    """The operation on a resource was cancelled."""


@dataclass(frozen=True, slots=True)
class KnownResource:
    """A resource as headrace knows it.

    Attributes:
        identifier: its physical id.
        attributes: the values that Fn::GetAtt returns, by name.
        changed_ms: when it was last changed, in milliseconds since the epoch.
    """

    identifier: str
    properties: Mapping[str, Any]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    changed_ms: int = 0


@dataclass(frozen=True, slots=True)
class ResourcePlace:
    """The account and region of an operation on a resource, and the event that cancels it.

    Attributes:
        stop: an event; when it is set, the operation is cancelled.
        note_made: is called with the physical id as soon as the resource has one.
    """

    account: str
    region: str
    stop: threading.Event
    note_made: Callable[[str], None]


class ResourceTypes(Protocol):
    """CloudFormation's resource types. Thread-safe; every method of a resource raises ResourceRefused."""

    def knows(self, kind: str) -> bool:
        """Whether resources of a type can be made outside of a stack."""
        ...

    def is_known(self, kind: str) -> bool:
        """Whether headrace has a resource type of this name."""
        ...

    def create(
        self, place: ResourcePlace, kind: str, properties: Mapping[str, Any]
    ) -> KnownResource:
        """Make a resource; also raises ResourceCancelled."""
        ...

    def read(
        self, place: ResourcePlace, kind: str, identifier: str, known: KnownResource | None
    ) -> KnownResource | None:
        """Return a resource as its service has it now; None: it does not exist, or nobody can tell."""
        ...

    def readable(self, kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        """Return properties without those that AWS never shows, such as passwords."""
        ...

    def identifier_of(self, kind: str, resource: KnownResource) -> str:
        """Return a resource's identifier as Cloud Control has it: the parts of a compound one have `|` between them."""
        ...

    def list_identifiers(self, place: ResourcePlace, kind: str) -> list[str]:
        """Return the identifiers of all resources of a type that its service lists, whoever made them."""
        ...

    def update(
        self, place: ResourcePlace, kind: str, before: KnownResource, properties: Mapping[str, Any]
    ) -> KnownResource:
        """Change a resource in place; also raises ResourceCancelled."""
        ...

    def delete(self, place: ResourcePlace, kind: str, resource: KnownResource) -> None:
        """Delete a resource; also raises ResourceCancelled."""
        ...

    def in_stacks(self, account: str, region: str, kind: str) -> list[KnownResource]:
        """Return all resources of a type in stacks."""
        ...


class ControlPlane(Protocol):
    """Any AWS operation of any service in this cloud, by name, in process."""

    def call(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        account: str | None = None,
        region: str | None = None,
        acting: CallerIdentity | None = None,
    ) -> dict[str, Any]:
        """Run an operation as boto3 would name it (`"lambda"`, `"CreateFunction"`).

        Without `acting` the cloud itself is the caller, which may do everything. Blobs are bytes (a streaming body
        comes back as bytes), timestamps aware datetimes.
        Raises headrace.aws.calls.errors.AwsError.
        """
        ...


FidelityLevel = Literal["enforced", "stored", "ignored"]


class JobCredentials(Protocol):
    """Gives Spark jobs the credentials with which they sign requests."""

    def __call__(
        self,
        account: str,
        role: str,
        session: str,
        policy: str = "",
        policy_arns: tuple[str, ...] = (),
    ) -> Mapping[str, str]:
        """Return the environment variables of a job's credentials, as a session of its role.

        `role` is a role's ARN, or the name or ARN of an instance profile; without one the credentials are the account's
        own. `policy` (a document) and `policy_arns` (managed policies) are session policies, which limit the role.
        """
        ...


def any_credentials(
    account: str, role: str, session: str, policy: str = "", policy_arns: tuple[str, ...] = ()
) -> Mapping[str, str]:
    """Return credentials of an account; the `JobCredentials` of services that are built without a cloud."""
    return {"AWS_ACCESS_KEY_ID": account, "AWS_SECRET_ACCESS_KEY": "headrace"}
