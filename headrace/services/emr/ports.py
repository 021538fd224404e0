"""The dependencies of cluster workers: clock, store, metrics, and the jobs' access to the cloud."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from headrace.core.clock import Clock
from headrace.core.ports import Guard, MetricSink, NoGuard
from headrace.services.emr.store import Store
from headrace.spark_submit.context import JobContext


@dataclass(frozen=True, slots=True)
class Ports:
    """What all runners share.

    Attributes:
        context: how jobs reach this cloud.
        folder: EMR's folder, with a folder for each cluster.
        guard: decides what a cluster's service role may do.
        run_bootstrap_actions: whether clusters run their bootstrap actions on this machine.
    """

    clock: Clock
    store: Store
    context: JobContext
    metrics: MetricSink
    folder: Path
    guard: Guard = field(default_factory=NoGuard)
    run_bootstrap_actions: bool = False
