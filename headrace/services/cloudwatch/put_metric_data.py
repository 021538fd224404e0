"""PutMetricData: which values CloudWatch takes, and how they come to moto's state, which keeps each by itself."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

import msgspec

from headrace.moto.requests.quick import QuickCall, QuickRequest, reader_of

_LARGEST = 2.0**360
# A value that is given more often becomes one point; `Counts` may say a billion, and moto stores each by itself.
MOST_REPEATED = 20


def put_as_points(put: Any) -> Any:
    """Check values, and put those that are given often as statistics: moto stores each by itself."""

    @functools.wraps(put)
    def put_metric_data(self: Any, namespace: str, metric_data: list[dict[str, Any]]) -> None:
        for number, member in enumerate(metric_data, 1):
            _check_values(member, f"MetricData.member.{number}")
            self._validate_parameters_put_metric_data(member, number)
        put(self, namespace, [part for member in metric_data for part in _split(member)])

    return put_metric_data


def _split(member: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a metric's data: the values that are repeated a few times, and the statistics of each other one."""
    if not member.get("Values") or not member.get("Counts"):
        yield member
        return
    repeated = [*zip(member["Values"], member["Counts"], strict=True)]
    rest = {name: value for name, value in member.items() if name not in ("Values", "Counts")}
    often = [pair for pair in repeated if MOST_REPEATED < float(pair[1]) < math.inf]
    seldom = [pair for pair in repeated if pair not in often]
    if seldom:
        values, counts = zip(*seldom, strict=True)
        yield {**rest, "Values": values, "Counts": counts}
    for value, count in often:
        total = float(value) * float(count)
        statistics = {"Sum": total, "Minimum": value, "Maximum": value, "SampleCount": count}
        yield {**rest, "StatisticValues": statistics}


def _check_values(member: dict[str, Any], path: str) -> None:
    """Refuse numbers that CloudWatch does not store (API_MetricDatum.html: -2^360 to 2^360; no NaN, no infinity)."""
    from moto.cloudwatch.exceptions import InvalidParameterValue

    given = [("Value", member.get("Value"))]
    given += [("Values", value) for value in member.get("Values") or ()]
    statistics = cast("dict[str, Any]", member.get("StatisticValues") or {})
    given += [(f"StatisticValues.{name}", value) for name, value in statistics.items()]
    for name, value in given:
        # Of what is no number, no comparison is true.
        if value is not None and not -_LARGEST <= float(value) <= _LARGEST:
            shown = str(float(value)).replace("inf", "Infinity").replace("nan", "NaN")
            raise InvalidParameterValue(
                f"The value {shown} for parameter {path}.{name} is invalid."
            )


# --- calls of the cloud's own parts, which send metrics all the time: see `headrace.moto.requests.quick` -------------


class _Dimension(msgspec.Struct):
    Name: str
    Value: str


class _Datum(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    MetricName: str
    Unit: str
    Timestamp: datetime
    Dimensions: list[_Dimension]
    Value: float | None = None
    Values: list[float] | None = None
    Counts: list[float] | None = None
    StatisticValues: dict[str, float] | None = None


class _PutMetricData(msgspec.Struct, forbid_unknown_fields=True):
    Namespace: str
    MetricData: list[_Datum]


def _put_quickly(request: QuickRequest, asked: _PutMetricData) -> bytes:
    # moto's times have no zone.
    for datum in asked.MetricData:
        datum.Timestamp = datum.Timestamp.replace(tzinfo=None)
    members = msgspec.to_builtins(asked.MetricData, builtin_types=(datetime,))
    request.backend.put_metric_data(asked.Namespace, members)
    return b"{}"


QUICK_CALLS = (
    QuickCall(
        "GraniteServiceVersion20100801.PutMetricData",
        "cloudwatch",
        reader_of(_put_quickly, _PutMetricData),
        is_own=True,
        is_clients=False,
        signed_as="monitoring",
    ),
)
