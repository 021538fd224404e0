"""Clusters, steps, security configurations and state changes: records, and their storage.

Reads come from memory; every write is in the database first. The store also queues the state changes that are to be
sent as events. A cluster's nodes have no machines: their ids derive from those of their group or cluster, so that they
are stable.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NotRequired, TypedDict, cast

import msgspec

from headrace.aws.shapes import emr as shapes
from headrace.core.clock import Clock
from headrace.store.database import Database


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


def actor_of(cluster: Cluster, step: Step | None = None) -> tuple[str, str]:
    """Return the role that the nodes use, and its session name.

    The role is the step's runtime role, else the instance profile's; the session name is the master's instance id.
    """
    runtime = "" if step is None else step.execution_role_arn
    role = runtime or str(cluster.request.get("JobFlowRole") or "")
    return role, master_instance_id(cluster)


def instance_ids(holder_id: str, number: int) -> tuple[str, str]:
    """Return the EMR id and the EC2 id of instance `number` (from 0) in a group or fleet."""
    digest = hashlib.sha256(f"{holder_id}/{number}".encode()).hexdigest()
    return f"ci-{digest[:13].upper()}", f"i-{digest[:17]}"


def fleet_id(cluster: Cluster, kind: str) -> str:
    """Return a fleet's id, derived from the cluster's: a cluster has at most one fleet of each type."""
    return f"if-{kind[0]}{cluster.id[3:]}"


def master_instance_id(cluster: Cluster) -> str:
    """Return the master's EC2 instance id, as ListInstances returns it."""
    for group in cluster.groups:
        if group["InstanceRole"] == "MASTER":
            return instance_ids(group["Id"], 0)[1]
    for fleet in cluster.fleets:
        if fleet["InstanceFleetType"] == "MASTER":
            market = "ON_DEMAND" if fleet.get("TargetOnDemandCapacity") else "SPOT"
            return instance_ids(f"{fleet_id(cluster, 'MASTER')}/{market}", 0)[1]
    return instance_ids(cluster.id, 0)[1]


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of a cluster's or a step's state, with copies of both at `at_ms`, epoch milliseconds."""

    cluster: Cluster
    step: Step | None
    at_ms: int


log = logging.getLogger(__name__)

# The limit of queued state changes; the oldest are dropped first.
MOST_CHANGES = 10_000


class Store:
    """All clusters of all accounts and regions.

    Thread-safe. Hold `lock` for every change and for reads that must be consistent with each other. A change is durable
    when `save_*` returns. `on_change` is called after each change of state, with the lock held; it must not block.
    """

    def __init__(self, clock: Clock, database: Database) -> None:
        self.lock = threading.RLock()
        self.on_change: Callable[[], None] = lambda: None
        self._clock = clock
        self._changes: deque[StateChange] = deque(maxlen=MOST_CHANGES)
        self._database = database
        self._cluster_documents = database.documents("emr_clusters")
        self._step_documents = database.documents("emr_steps")
        self._access_documents = database.documents("emr_public_access")
        self._security_documents = database.documents("emr_security_configurations")
        self._clusters: dict[str, Cluster] = {}
        self._steps: dict[str, list[Step]] = {}

    def load(self) -> None:
        """Read everything from the database."""
        with self.lock:
            self._clusters = {
                key: msgspec.convert(value, Cluster)
                for key, value in self._cluster_documents.items()
            }
            self._steps = {key: [] for key in self._clusters}
            for _, value in self._step_documents.items():  # noqa: PERF102 - not a dict
                step = msgspec.convert(value, Step)
                self._steps[step.cluster_id].append(step)

    # --- clusters -----------------------------------------------------------------------------

    def clusters(self) -> list[Cluster]:
        """Return all clusters, oldest first."""
        with self.lock:
            return sorted(self._clusters.values(), key=lambda cluster: cluster.created_ms)

    def find(self, cluster_id: str, *, account: str, region: str) -> Cluster | None:
        """Return a cluster of an account and region, or None."""
        with self.lock:
            cluster = self._clusters.get(cluster_id)
        if cluster is None or (cluster.account, cluster.region) != (account, region):
            return None
        return cluster

    def cluster(self, cluster_id: str) -> Cluster:
        """Return a cluster that exists."""
        with self.lock:
            return self._clusters[cluster_id]

    def add(self, cluster: Cluster, steps: list[Step]) -> None:
        """Store a new cluster with its first steps, all or nothing."""
        with self.lock:
            with self._database.transaction():
                self.save(cluster)
                for step in steps:
                    self.save_step(step)
            self._clusters[cluster.id] = cluster
            self._steps[cluster.id] = list(steps)
            self._announce(cluster)
            for step in steps:
                self._announce(cluster, step)

    def change_cluster(
        self, cluster: Cluster, state: ClusterState, *, code: str = "", message: str = ""
    ) -> None:
        """Store a cluster's new state and its reason."""
        with self.lock:
            cluster.state, cluster.reason_code, cluster.reason_message = state, code, message
            if state is not ClusterState.WAITING:
                cluster.idle_since_ms = None
            self.save(cluster)
            self._announce(cluster)
        log.info("cluster %s is %s", cluster.id, state)

    def save(self, cluster: Cluster) -> None:
        """Store a changed cluster."""
        self._cluster_documents.put(cluster.id, msgspec.to_builtins(cluster))

    # --- steps --------------------------------------------------------------------------------

    def steps(self, cluster_id: str) -> list[Step]:
        """Return a cluster's steps, oldest first."""
        with self.lock:
            return list(self._steps[cluster_id])

    def step(self, cluster_id: str, step_id: str) -> Step | None:
        """Return a step, or None."""
        with self.lock:
            return next((s for s in self._steps[cluster_id] if s.id == step_id), None)

    def add_steps(self, cluster: Cluster, steps: list[Step]) -> None:
        """Store new steps of a cluster, all or nothing."""
        with self.lock:
            self._step_documents.put_all(
                {_key_of(step): msgspec.to_builtins(step) for step in steps}
            )
            for step in steps:
                self._steps[cluster.id].append(step)
                self._announce(cluster, step)

    def change_step(
        self, cluster: Cluster, step: Step, state: StepState, message: str = ""
    ) -> None:
        """Store a step's new state and its reason; if storing fails, the step is unchanged."""
        with self.lock:
            before = step.state, step.reason_message, step.started_ms
            step.state, step.reason_message = state, message
            if state is StepState.PENDING:
                step.started_ms = None
            try:
                self.save_step(step)
            except Exception:
                step.state, step.reason_message, step.started_ms = before
                raise
            self._announce(cluster, step)
        log.info("step %s of cluster %s is %s", step.id, step.cluster_id, state)

    def start_step(self, cluster: Cluster, step: Step) -> None:
        """Store that a step runs from now on, and with it its cluster, both or none."""
        with self.lock:
            began = replace(step, state=StepState.RUNNING, started_ms=self._clock.now_ms())
            busy = replace(
                cluster,
                state=ClusterState.RUNNING,
                reason_code="",
                reason_message="Running step",
                idle_since_ms=None,
            )
            is_new = cluster.state is not busy.state
            with self._database.transaction():
                self._step_documents.put(_key_of(step), msgspec.to_builtins(began))
                if is_new:
                    self._cluster_documents.put(cluster.id, msgspec.to_builtins(busy))
            step.state, step.started_ms = began.state, began.started_ms
            self._announce(cluster, step)
            if is_new:
                cluster.state, cluster.idle_since_ms = busy.state, None
                cluster.reason_code, cluster.reason_message = "", busy.reason_message
                self._announce(cluster)
        log.info("step %s of cluster %s is %s", step.id, step.cluster_id, step.state)
        if is_new:
            log.info("cluster %s is %s", cluster.id, cluster.state)

    def save_step(self, step: Step) -> None:
        """Store a changed step."""
        self._step_documents.put(_key_of(step), msgspec.to_builtins(step))

    # --- changes of state ---------------------------------------------------------------------

    def _announce(self, cluster: Cluster, step: Step | None = None) -> None:
        change = StateChange(copy.copy(cluster), copy.copy(step), self._clock.now_ms())
        self._changes.append(change)
        self.on_change()

    def next_change(self) -> StateChange | None:
        """Remove and return the oldest queued state change; None when there is none."""
        try:
            return self._changes.popleft()
        except IndexError:
            return None

    # --- block public access ------------------------------------------------------------------

    def public_access(self, account: str, region: str) -> PublicAccess | None:
        """Return an account's block-public-access setting, or None when it was never set."""
        return self._access_documents.get(f"{account}/{region}")

    def put_public_access(self, value: PublicAccess, *, account: str, region: str) -> None:
        """Store an account's block-public-access setting."""
        self._access_documents.put(f"{account}/{region}", value)

    # --- security configurations --------------------------------------------------------------

    def security_configurations(
        self, account: str, region: str
    ) -> dict[str, SecurityConfiguration]:
        """Return an account's security configurations, sorted by name."""
        prefix = f"{account}/{region}/"
        return {
            key.removeprefix(prefix): value for key, value in self._security_documents.items(prefix)
        }

    def put_security_configuration(
        self, name: str, value: SecurityConfiguration | None, *, account: str, region: str
    ) -> None:
        """Store a security configuration; None removes it."""
        key = f"{account}/{region}/{name}"
        if value is None:
            self._security_documents.delete(key)
        else:
            self._security_documents.put(key, value)


def _key_of(step: Step) -> str:
    return f"{step.cluster_id}/{step.number:09d}"
