"""StackSets with self-managed permissions: their state, and the worker that brings an operation to its stacks.

Sources: docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/stacksets-concepts.html and the API reference
(documented); the sentences about missing roles, failed stacks and cancelled ones are observed by many.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn, partition_of
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import ControlPlane
from headrace.core.workers import Supervisor, WorkerDone
from headrace.services.cloudformation.errors import log_defect, reason_of
from headrace.store.database import Database

ADMINISTRATION_ROLE = "AWSCloudFormationStackSetAdministrationRole"
EXECUTION_ROLE = "AWSCloudFormationStackSetExecutionRole"
Action = Literal["CREATE", "UPDATE", "DELETE"]
_LOOK_EVERY_S = 0.2
_NO_UPDATES = "No updates are to be performed."
_WHOLE = {
    "CREATE": ("CREATE_COMPLETE", "UPDATE_COMPLETE"),
    "UPDATE": ("CREATE_COMPLETE", "UPDATE_COMPLETE"),
    "DELETE": ("DELETE_COMPLETE",),
}
# A stack in such a status can only be deleted: an operation makes it anew.
_ONLY_DELETABLE = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED")


def _role_arn(region: str, account: str, name: str) -> str:
    return f"arn:{partition_of(region)}:iam::{account}:role/{name}"


@dataclass(slots=True)
class StackSet:
    """A StackSet.

    Attributes:
        settings: members of CreateStackSet as they are shown; `TemplateBody` is the text.
        deleted: whether it was deleted; ListStackSets shows it still.
    """

    set_id: str
    name: str
    account: str
    region: str
    settings: dict[str, Any]
    deleted: bool = False

    @property
    def arn(self) -> str:
        """The ARN, of which the id is the end."""
        return make_arn("cloudformation", self.region, self.account, f"stackset/{self.set_id}")

    @property
    def administration_role(self) -> str:
        """The ARN of the role that the service takes."""
        default = _role_arn(self.region, self.account, ADMINISTRATION_ROLE)
        return self.settings.get("AdministrationRoleARN") or default

    @property
    def execution_role(self) -> str:
        """The name of the role that each target account has."""
        return self.settings.get("ExecutionRoleName") or EXECUTION_ROLE


@dataclass(slots=True)
class StackInstance:
    """The stack of a set in one account and region.

    Attributes:
        stack_name: known before the stack is created, so that a resumed operation finds it.
        begun: the operation that last began to change the stack.
    """

    set_id: str
    account: str
    region: str
    stack_name: str
    overrides: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    stack_id: str = ""
    status: str = "OUTDATED"
    detailed: str = "PENDING"
    reason: str = ""
    operation_id: str = ""
    begun: str = ""

    @property
    def key(self) -> str:
        """The key under which it is stored."""
        return f"{self.set_id} {self.account} {self.region}"


@dataclass(slots=True)
class SetOperation:
    """An operation on a set.

    Attributes:
        targets: the accounts and regions, in the order in which they are worked on.
        results: `account region` -> the members of a StackSetOperationResultSummary, for those that have ended.
        tolerated: how many accounts of a region may fail.
        retain: whether deleted instances keep their stacks.
    """

    operation_id: str
    set_id: str
    action: Action
    created_ms: int
    targets: list[list[str]]
    tolerated: int = 0
    retain: bool = False
    preferences: dict[str, Any] = field(default_factory=dict[str, Any])
    status: str = "RUNNING"
    ended_ms: int | None = None
    results: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    @property
    def key(self) -> str:
        """The key under which it is stored."""
        return f"{self.set_id} {self.created_ms:015d} {self.operation_id}"


class StackSets:
    """All sets, instances and operations. Thread-safe as the database is; what `save` wrote is durable on return."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        ids: Ids,
        control: ControlPlane,
        supervisor: Supervisor,
        lock: AbstractContextManager[Any],
    ) -> None:
        """`lock` is held by whoever reads an operation's status and then acts on it."""
        self._sets = database.documents("cfn_stack_sets")
        self._instances = database.documents("cfn_stack_instances")
        self._operations = database.documents("cfn_stack_set_operations")
        self.clock = clock
        self.ids = ids
        self.control = control
        self.lock = lock
        self._supervisor = supervisor

    def resume_all(self) -> None:
        """Resume the operations that a stop or a kill interrupted."""
        for one_set in self._list_sets():
            for operation in self.operations(one_set):
                if operation.status in ("RUNNING", "STOPPING"):
                    self._supervisor.start(_Run(self, one_set, operation.key))

    # --- what is stored -----------------------------------------------------------------------

    def _list_sets(self) -> Iterator[StackSet]:
        return (StackSet(**value) for _, value in self._sets.items())

    def of(self, account: str, region: str) -> list[StackSet]:
        """Return an account's sets of a region, deleted ones too."""
        return [s for s in self._list_sets() if (s.account, s.region) == (account, region)]

    def find(self, account: str, region: str, name: str) -> StackSet | None:
        """Return the set that exists under a name, an id or an ARN."""
        for one_set in self.of(account, region):
            if not one_set.deleted and name in (one_set.name, one_set.set_id, one_set.arn):
                return one_set
        return None

    def instances(self, one_set: StackSet) -> list[StackInstance]:
        """Return a set's instances, by account and region."""
        return [StackInstance(**v) for _, v in self._instances.items(f"{one_set.set_id} ")]

    def operations(self, one_set: StackSet) -> list[SetOperation]:
        """Return a set's operations, oldest first."""
        return [SetOperation(**v) for _, v in self._operations.items(f"{one_set.set_id} ")]

    def operation(self, key: str) -> SetOperation:
        """Return the operation that is stored under a key."""
        stored: dict[str, Any] = self._operations.get(key) or {}
        return SetOperation(**stored)

    def save(self, *things: StackSet | StackInstance | SetOperation) -> None:
        """Store these."""
        for thing in things:
            match thing:
                case StackSet():
                    self._sets.put(thing.set_id, asdict(thing))
                case StackInstance():
                    self._instances.put(thing.key, asdict(thing))
                case SetOperation():
                    self._operations.put(thing.key, asdict(thing))

    def remove(self, instance: StackInstance) -> None:
        """Forget an instance."""
        self._instances.delete(instance.key)

    # --- operations ---------------------------------------------------------------------------

    def start(self, one_set: StackSet, operation: SetOperation) -> None:
        """Store an operation and run it in the background."""
        self.save(operation)
        self._supervisor.start(_Run(self, one_set, operation.key))

    def has_role(self, account: str, name: str) -> bool:
        """Whether an account has a role. Raises AwsError."""
        try:
            self.control.call("iam", "GetRole", {"RoleName": name}, account=account)
        except AwsError as error:
            if error.code != "NoSuchEntity":
                raise
            return False
        return True


class _Run:
    """A worker that runs one operation, target by target; each step can be repeated after a kill."""

    def __init__(self, sets: StackSets, one_set: StackSet, key: str) -> None:
        self.name = f"StackSet {one_set.name}"
        self._sets = sets
        self._set = one_set
        self._key = key

    def step(self) -> float:
        operation = self._sets.operation(self._key)
        target = next((t for t in operation.targets if " ".join(t) not in operation.results), None)
        if target is None:
            self._end(operation)
            raise WorkerDone
        if operation.status == "STOPPING":
            self._cancel(operation, "Cancelled by StopStackSetOperation")
            return 0.0
        if _has_failed(operation):
            self._cancel(operation, "Cancelled since failure tolerance has exceeded")
            return 0.0
        instance = next(
            i for i in self._sets.instances(self._set) if [i.account, i.region] == target
        )
        try:
            return self._work(operation, instance)
        except AwsError as error:
            self._note(operation, instance, "FAILED", reason_of(error))
        except Exception as error:  # noqa: BLE001 - the instance's reason and the log have it
            log_defect(f"StackSet {self._set.name}", error)
            self._note(operation, instance, "FAILED", reason_of(error))
        return 0.0

    def _work(self, operation: SetOperation, instance: StackInstance) -> float:
        if operation.action == "DELETE" and operation.retain:
            self._note(operation, instance, "SUCCEEDED")
            return 0.0
        if not self._sets.has_role(instance.account, self._set.execution_role):
            role = self._set.administration_role.rpartition("/")[2]
            reason = (
                f"Account {instance.account} should have '{self._set.execution_role}' role with trust relationship to"
                f" Role '{role}'."
            )
            self._note(operation, instance, "FAILED", reason)
            return 0.0
        stack = self._describe(instance)
        status = "" if stack is None else str(stack["StackStatus"])
        if status.endswith("_IN_PROGRESS") and not status.endswith("CLEANUP_IN_PROGRESS"):
            return _LOOK_EVERY_S
        if instance.begun != operation.operation_id:
            return self._begin(operation, instance, status)
        if operation.action != "DELETE" and stack is None:
            # A stack that could only be deleted is gone now, or the cloud was killed before it was created.
            self._create(instance)
            return 0.0
        if stack is None or status.removesuffix("_CLEANUP_IN_PROGRESS") in _WHOLE[operation.action]:
            self._note(operation, instance, "SUCCEEDED")
        else:
            self._note(operation, instance, "FAILED", self._failure(instance, status))
        return 0.0

    def _begin(self, operation: SetOperation, instance: StackInstance, status: str) -> float:
        instance.operation_id, instance.detailed = operation.operation_id, "RUNNING"
        if operation.action == "DELETE" or status in _ONLY_DELETABLE:
            if status:
                self._call(instance, "DeleteStack", StackName=instance.stack_name)
        elif status:
            try:
                self._call(instance, "UpdateStack", **self._request(instance))
            except AwsError as error:
                if error.message != _NO_UPDATES:
                    raise
        else:
            self._create(instance)
        instance.begun = operation.operation_id
        self._sets.save(instance)
        return 0.0

    def _create(self, instance: StackInstance) -> None:
        answer = self._call(instance, "CreateStack", **self._request(instance))
        instance.stack_id = str(answer["StackId"])
        self._sets.save(instance)

    def _request(self, instance: StackInstance) -> dict[str, Any]:
        settings = self._set.settings
        values = {
            p["ParameterKey"]: p["ParameterValue"]
            for p in [*settings.get("Parameters", ()), *instance.overrides]
        }
        return {
            "StackName": instance.stack_name,
            "TemplateBody": settings["TemplateBody"],
            "Parameters": [{"ParameterKey": k, "ParameterValue": v} for k, v in values.items()],
            "Capabilities": settings.get("Capabilities", []),
            "Tags": settings.get("Tags", []),
            "RoleARN": _role_arn(instance.region, instance.account, self._set.execution_role),
        }

    def _call(self, instance: StackInstance, operation: str, **params: Any) -> dict[str, Any]:
        return self._sets.control.call(
            "cloudformation", operation, params, account=instance.account, region=instance.region
        )

    def _describe(self, instance: StackInstance) -> Mapping[str, Any] | None:
        try:
            answer = self._call(instance, "DescribeStacks", StackName=instance.stack_name)
        except AwsError as error:
            if error.code == "ValidationError" and "does not exist" in error.message:
                return None
            raise
        return answer["Stacks"][0]

    def _failure(self, instance: StackInstance, status: str) -> str:
        """Return the first failed resource and its reason, in the form of AWS's."""
        events = self._call(instance, "DescribeStackEvents", StackName=instance.stack_name)
        for event in reversed(events["StackEvents"]):
            if event["ResourceStatus"].endswith("_FAILED"):
                return (
                    f"ResourceLogicalId:{event['LogicalResourceId']}, ResourceType:{event['ResourceType']},"
                    f" ResourceStatusReason:{event.get('ResourceStatusReason', '')}"
                )
        return f"Stack {instance.stack_id} is {status}"

    def _note(
        self, operation: SetOperation, instance: StackInstance, status: str, reason: str = ""
    ) -> None:
        """Store how an operation ended for an instance."""
        instance.operation_id, instance.begun = operation.operation_id, operation.operation_id
        instance.detailed, instance.reason = status, reason
        if status == "SUCCEEDED":
            instance.status = "CURRENT"
        elif instance.status == "CURRENT":
            instance.status = "OUTDATED"
        if operation.action == "DELETE" and status == "FAILED":
            # Its stack could not be deleted (documented).
            instance.status = "INOPERABLE"
        if operation.action == "DELETE" and status == "SUCCEEDED":
            self._sets.remove(instance)
        else:
            self._sets.save(instance)
        result = {"Account": instance.account, "Region": instance.region, "Status": status}
        key = f"{instance.account} {instance.region}"
        operation.results[key] = {**result, **({"StatusReason": reason} if reason else {})}
        with self._sets.lock:
            # A request to stop may have come meanwhile.
            operation.status = self._sets.operation(operation.key).status
            self._sets.save(operation)

    def _cancel(self, operation: SetOperation, reason: str) -> None:
        """Cancel what has not begun."""
        by_target = {(i.account, i.region): i for i in self._sets.instances(self._set)}
        for account, region in operation.targets:
            if f"{account} {region}" not in operation.results:
                self._note(operation, by_target[account, region], "CANCELLED", reason)

    def _end(self, operation: SetOperation) -> None:
        statuses = {result["Status"] for result in operation.results.values()}
        if operation.status == "STOPPING":
            operation.status = "STOPPED"
        else:
            is_failed = _has_failed(operation) or "CANCELLED" in statuses
            operation.status = "FAILED" if is_failed else "SUCCEEDED"
        operation.ended_ms = self._sets.clock.now_ms()
        with self._sets.lock:
            self._sets.save(operation)


def _has_failed(operation: SetOperation) -> bool:
    """Whether a region has more failures than are tolerated: nothing more is begun, there or later (documented)."""
    failures = Counter(r["Region"] for r in operation.results.values() if r["Status"] == "FAILED")
    return any(count > operation.tolerated for count in failures.values())


def count_tolerated(preferences: Mapping[str, Any], accounts: int) -> int:
    """Return how many accounts of a region may fail: a count, or a percentage, rounded down (documented)."""
    if "FailureToleranceCount" in preferences:
        return int(preferences["FailureToleranceCount"])
    return math.floor(accounts * int(preferences.get("FailureTolerancePercentage") or 0) / 100)


def order_targets(
    accounts: Iterable[str], regions: Iterable[str], preferences: Mapping[str, Any]
) -> list[list[str]]:
    """Return the targets region by region, in the preferred order."""
    preferred: list[str] = preferences.get("RegionOrder") or []
    order = {region: position for position, region in enumerate(preferred)}
    ordered = sorted(dict.fromkeys(regions), key=lambda region: order.get(region, len(order)))
    distinct = list(dict.fromkeys(accounts))
    return [[account, region] for region in ordered for account in distinct]
