"""Merged points of CloudWatch's metrics, in as little memory as their values take: a cloud keeps fifteen days of them.

moto's object for a point, with a dict of its values, takes 1 to 6 KB; 45 come each minute of an idle cloud's metrics.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import datetime
from typing import Any

# A metric's namespace, name and dimensions, and a unit.
Series = tuple[Any, ...]


class Point:
    """What a metric's values of one period come to, with the interface of moto's `MetricAggregatedDatum`.

    Attributes:
        series: names the metric and the unit; the points of a metric share it, and `dimensions`.
        dimensions: moto's `Dimension` objects.
        timestamp: when the period begins.
        min, max, sample_count, sum: the statistics of the values.
    """

    __slots__ = (
        "_counts", "_values", "dimensions", "max", "min", "sample_count", "series", "sum", "timestamp",
    )  # fmt: skip

    def __init__(
        self,
        series: Series,
        dimensions: list[Any],
        timestamp: datetime,
        statistics: tuple[float, float, float, float],
    ) -> None:
        self.series = series
        self.dimensions = dimensions
        self.timestamp = timestamp
        self.min, self.max, self.sample_count, self.sum = statistics
        # The values that the point tells apart, and how often each was given; None: its average, and once each.
        self._values: dict[float, float] | array[float] | None = None
        self._counts: array[float] | None = None

    @property
    def namespace(self) -> str:
        """See moto's `MetricDatumBase`."""
        return self.series[0]

    @property
    def name(self) -> str:
        """See moto's `MetricDatumBase`."""
        return self.series[1]

    @property
    def unit(self) -> str | None:
        """See moto's `MetricDatumBase`."""
        return self.series[-1]

    def filter(
        self, namespace: str | None, name: str | None, dimensions: Sequence[dict[str, str]]
    ) -> bool:
        """See moto's `MetricDatumBase`."""
        from moto.cloudwatch.models import MetricDatumBase

        is_wanted: Any = MetricDatumBase.filter
        return is_wanted(self, namespace, name, dimensions)

    @property
    def spread(self) -> dict[float, float]:
        """The values that the point tells apart, with their counts; after `pack` a copy."""
        values = self._values
        if isinstance(values, dict):
            return values
        if values is None:
            return self._average()
        if self._counts is None:
            return dict.fromkeys(values, 1.0)
        return dict(zip(values, self._counts, strict=True))

    @spread.setter
    def spread(self, spread: dict[float, float]) -> None:
        self._values, self._counts = spread, None

    def _average(self) -> dict[float, float]:
        count = self.sample_count
        return {self.sum / count if count else 0.0: count}

    def pack(self) -> None:
        """Keep the values in 8 or 16 bytes each, since probably no more come."""
        spread = self.spread
        self._values = self._counts = None
        if spread == self._average():
            return
        self._values = array("d", spread)
        if any(count != 1.0 for count in spread.values()):
            self._counts = array("d", spread.values())
