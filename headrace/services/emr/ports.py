"""What the runners of all clusters are given: clock, store, metrics, and what the cloud gives to jobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.core.clock import Clock
from headrace.core.ports import MetricSink
from headrace.services.emr.store import Store
from headrace.spark_submit.commands import JobContext


@dataclass(frozen=True, slots=True)
class Ports:
    """What all runners share.

    Attributes:
        context: what this cloud gives to every job.
        folder: EMR's own, with a folder for each cluster.
        run_bootstrap_actions: whether clusters run their bootstrap actions on this machine.
    """

    clock: Clock
    store: Store
    context: JobContext
    metrics: MetricSink
    folder: Path
    run_bootstrap_actions: bool = False
