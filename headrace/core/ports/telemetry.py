"""The ports through which services report metrics and log lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Metric:
    """One CloudWatch datum: a value, or the statistics of many values.

    Attributes:
        statistics: sample count, sum, minimum and maximum; when they are set, `value` is not sent.
    """

    namespace: str
    name: str
    value: float
    unit: str
    dimensions: tuple[tuple[str, str], ...]
    timestamp_ms: int
    statistics: tuple[float, float, float, float] | None = None


class MetricSink(Protocol):
    """Takes metrics. Never raises and never blocks: metrics must not harm what they measure."""

    def put(self, metrics: Sequence[Metric], *, account: str, region: str) -> None:
        """Queue metrics for CloudWatch."""
        ...


@dataclass(frozen=True, slots=True)
class LogLine:
    """One log event."""

    timestamp_ms: int
    message: str


class LogSink(Protocol):
    """Takes log lines for CloudWatch Logs; creates the log group and stream. Never raises, never blocks."""

    def put(
        self, group: str, stream: str, lines: Sequence[LogLine], *, account: str, region: str
    ) -> None:
        """Queue lines for a log stream."""
        ...
