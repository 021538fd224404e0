"""The records of clusters, steps and their state changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NotRequired, TypedDict, cast

from headrace.aws.shapes import emr as shapes


class ClusterState(StrEnum):
    """AWS's states of a cluster."""

    STARTING = "STARTING"
    BOOTSTRAPPING = "BOOTSTRAPPING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    TERMINATING = "TERMINATING"
    TERMINATED = "TERMINATED"
    TERMINATED_WITH_ERRORS = "TERMINATED_WITH_ERRORS"


class StepState(StrEnum):
    """AWS's states of a step."""

    PENDING = "PENDING"
    CANCEL_PENDING = "CANCEL_PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"


ENDED_CLUSTER = frozenset({ClusterState.TERMINATED, ClusterState.TERMINATED_WITH_ERRORS})
ENDED_STEP = frozenset(
    {StepState.COMPLETED, StepState.CANCELLED, StepState.FAILED, StepState.INTERRUPTED}
)
# The states of a step that may have a process.
STEP_UNDER_WAY = frozenset({StepState.RUNNING, StepState.CANCEL_PENDING})


class InstanceGroup(shapes.InstanceGroupConfig):
    """An instance group as it was asked for, with its id; `created_ms` when it came after the cluster."""

    Id: str
    ShrinkPolicy: NotRequired[shapes.ShrinkPolicy]
    created_ms: NotRequired[int]


class InstanceFleet(shapes.InstanceFleetConfig):
    """An instance fleet as it was asked for; `created_ms` when it came after the cluster."""

    created_ms: NotRequired[int]


class PublicAccess(TypedDict):
    """An account's setting of block public access, and who made it when."""

    configuration: shapes.BlockPublicAccessConfiguration
    created_ms: int
    created_by: str


class SecurityConfiguration(TypedDict):
    """A security configuration: JSON text that nothing acts on."""

    text: str
    created_ms: int


@dataclass(slots=True, kw_only=True)
class Cluster:
    """A cluster. `request` is RunJobFlow's; times are epoch milliseconds."""

    id: str
    account: str
    region: str
    name: str
    request: dict[str, Any]
    created_ms: int
    keep_alive: bool
    termination_protected: bool = False
    visible: bool = True
    replace_unhealthy: bool = False
    step_concurrency: int = 1
    state: ClusterState = ClusterState.STARTING
    reason_code: str = ""
    reason_message: str = ""
    ready_ms: int | None = None
    ended_ms: int | None = None
    idle_since_ms: int | None = None
    idle_timeout_s: int | None = None
    managed_scaling: dict[str, Any] | None = None
    tags: dict[str, str] = field(default_factory=dict[str, str])
    instance_groups: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    # Whether it ends TERMINATED_WITH_ERRORS.
    failed: bool = False

    # The next two are typed views: msgspec, which reads stored clusters, would check and copy typed fields.
    @property
    def groups(self) -> list[InstanceGroup]:
        """Its instance groups; none for a cluster of fleets."""
        return cast("list[InstanceGroup]", self.instance_groups)

    @property
    def fleets(self) -> list[InstanceFleet]:
        """Its instance fleets; none for a cluster of groups."""
        return cast("list[InstanceFleet]", self.request["Instances"].get("InstanceFleets") or [])

    @property
    def log_uri(self) -> str | None:
        """The S3 URI for logs, or None."""
        return self.request.get("LogUri") or None

    @property
    def release_label(self) -> str | None:
        """Its release, such as `emr-7.13.0`; None when the request had none."""
        return self.request.get("ReleaseLabel") or None

    @property
    def ending(self) -> bool:
        """Whether it is terminating or terminated, and accepts no more steps."""
        return self.state in ENDED_CLUSTER or self.state is ClusterState.TERMINATING


@dataclass(slots=True, kw_only=True)
class Step:
    """A step. `number` counts the cluster's steps from 1; times are epoch milliseconds."""

    id: str
    cluster_id: str
    number: int
    name: str
    jar: str
    created_ms: int
    args: list[str] = field(default_factory=list[str])
    main_class: str = ""
    properties: dict[str, str] = field(default_factory=dict[str, str])
    action_on_failure: str = "CONTINUE"
    execution_role_arn: str = ""
    # Its own LogUri and encryption key; empty when it has none.
    log_uri: str = ""
    log_key_arn: str = ""
    state: StepState = StepState.PENDING
    reason_message: str = ""
    started_ms: int | None = None
    ended_ms: int | None = None
    failure: dict[str, str] = field(default_factory=dict[str, str])
    # SIGTERM or SIGKILL, once CancelSteps was called while it ran.
    cancel_signal: int | None = None

    def log_uri_in(self, cluster: Cluster) -> str | None:
        """The S3 URI for its logs: its own LogUri, else the cluster's, else None (API_S3MonitoringConfiguration)."""
        return self.log_uri or cluster.log_uri

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.state not in ENDED_STEP


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of a cluster's or a step's state, with copies of both at `at_ms`, epoch milliseconds."""

    cluster: Cluster
    step: Step | None
    at_ms: int
