"""Sends CloudWatch metrics of invocations: their number, duration, errors, throttles and concurrency."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.clock import Clock
from headrace.core.ports import Metric, MetricSink
from headrace.services.lambda_.invocations.concurrency import Slot
from headrace.services.lambda_.runtime.outcome import Outcome
from headrace.services.lambda_.state import Function


class FunctionMetrics:
    """Sends functions' metrics. Thread-safe, as its sink is."""

    def __init__(self, clock: Clock, metrics: MetricSink) -> None:
        self._clock = clock
        self._metrics = metrics

    def send(self, function: Function, qualifier: str | None, values: Mapping[str, float]) -> None:
        """Send metrics by function and, when one was named, by version or alias."""
        now_ms = self._clock.now_ms()
        by_name = (("FunctionName", function.name),)
        dimensions: list[tuple[tuple[str, str], ...]] = [by_name]
        if qualifier is not None:
            dimensions.append((*by_name, ("Resource", f"{function.name}:{qualifier}")))
        self._metrics.put(
            [
                Metric("AWS/Lambda", name, value, _find_unit(name), dimension_set, now_ms)
                for dimension_set in dimensions
                for name, value in values.items()
            ],
            account=function.account,
            region=function.region,
        )


def invocation_metrics(outcome: Outcome, slot: Slot) -> dict[str, float]:
    """Return the metrics of an invocation that has ended."""
    values = {
        "Invocations": 1.0,
        "Errors": 1.0 if outcome.function_error else 0.0,
        "Duration": outcome.duration_ms,
        "ConcurrentExecutions": float(slot.running),
    }
    if slot.provisioned is not None:
        name = "ProvisionedConcurrency" + ("" if slot.provisioned else "Spillover")
        values[f"{name}Invocations"] = 1.0
    return values


def _find_unit(name: str) -> str:
    return "Milliseconds" if name in ("Duration", "AsyncEventAge") else "Count"
