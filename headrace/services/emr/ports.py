"""What all runners of clusters share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.core.clock import Clock
from headrace.core.ports import MetricSink
from headrace.services.emr.announcements import Announcer
from headrace.services.emr.store import Store
from headrace.spark_submit.commands import Workshop


@dataclass(frozen=True, slots=True)
class RunnerPorts:
    """What all runners share."""

    clock: Clock
    store: Store
    workshop: Workshop
    metrics: MetricSink
    announcer: Announcer
    folder: Path
    run_bootstrap_actions: bool = False
