"""What the runners of all clusters are given: clock, store, metrics, and what the cloud gives to jobs."""

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
        context: what this cloud gives to every job.
        folder: EMR's own, with a folder for each cluster.
        guard: says what a cluster's service role may do.
        run_bootstrap_actions: whether clusters run their bootstrap actions on this machine.
    """

    clock: Clock
    store: Store
    context: JobContext
    metrics: MetricSink
    folder: Path
    guard: Guard = field(default_factory=NoGuard)
    run_bootstrap_actions: bool = False
