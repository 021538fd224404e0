"""The statistics of metric data: the plain ones, percentiles, trimmed and winsorized means, counts, sums and ranks.

Source: docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Statistics-definitions.html (documented).
A set of statistics stands for its average, as many times as it counts; AWS gives no percentiles of most sets.

The labels, messages and results of metric math in answers of GetMetricData.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from headrace.services.cloudwatch.metric_math import MathRefused, Metrics, Series, evaluate_all

# How many values a merged point tells apart; one that is new beyond them counts as the nearest.
MOST_VALUES = 100
_SHORT = re.compile(r"(p|tm|wm|tc|ts)(\d{1,3}(?:\.\d{0,10})?)")
_LONG = re.compile(r"(TM|WM|TC|TS|PR)\(([\d.]*)(%?):([\d.]*)(%?)\)")
# The units in the order in which CloudWatch prefers them (observed by others).
UNITS = (
    "Megabits", "Terabits", "Gigabits", "Count", "Bytes", "Gigabytes", "Gigabytes/Second", "Kilobytes",
    "Kilobits/Second", "Terabytes", "Terabits/Second", "Bytes/Second", "Percent", "Megabytes", "Megabits/Second",
    "Milliseconds", "Microseconds", "Kilobytes/Second", "Gigabits/Second", "Megabytes/Second", "Bits",
    "Bits/Second", "Count/Second", "Seconds", "Kilobits", "Terabytes/Second", "None",
)  # fmt: skip
# A value and how often it was given, in the order of the values.
Spread = Sequence[tuple[float, float]]


class StatisticRefused(ValueError):
    """CloudWatch does not have this statistic."""


def add_value(spread: dict[float, float], value: float, count: float, most: int) -> None:
    """Add a value that was given `count` times to those of a merged point, which tells `most` apart."""
    if value not in spread and len(spread) >= most:
        value = min(spread, key=lambda known: abs(known - value))
    spread[value] = spread.get(value, 0.0) + count


def values_of(datum: Any) -> dict[float, float]:
    """Return a datum's values with their counts: of a single value, a merged point, or a set of statistics."""
    if hasattr(datum, "value"):
        return {datum.value: 1.0}
    if spread := getattr(datum, "spread", None):
        return spread
    return {datum.sum / datum.sample_count if datum.sample_count else 0.0: datum.sample_count}


def statistic(stat: str, data: Sequence[Any]) -> float:
    """Return a statistic of a period's data. Raises StatisticRefused."""
    sets = [
        (d.value, d.value, 1.0, d.value)
        if hasattr(d, "value")
        else (d.min, d.max, d.sample_count, d.sum)
        for d in data
    ]
    count, total = math.fsum(s[2] for s in sets), math.fsum(s[3] for s in sets)
    match stat:
        case "SampleCount":
            return count
        case "Sum":
            return total
        case "Minimum":
            return float(min(s[0] for s in sets))
        case "Maximum":
            return float(max(s[1] for s in sets))
        case "Average":
            return total / count if count else 0.0
        case _:
            return _extended(stat, sorted(pair for d in data for pair in values_of(d).items()))


def _extended(stat: str, spread: Spread) -> float:
    if stat == "IQM":
        stat = "TM(25%:75%)"
    total = math.fsum(count for _, count in spread)
    if short := _SHORT.fullmatch(stat):
        kind, share = short[1].upper(), _share(short[2], stat)
        if kind == "P":
            return _at_rank(spread, share * total)
        return _of_ranks(kind, spread, 0.0, share * total)
    long = _LONG.fullmatch(stat)
    if long is None or not (long[2] or long[4]):
        raise StatisticRefused(f"CloudWatch does not have the statistic {stat}")
    kind, is_share = long[1], bool(long[3] or long[5])
    if kind == "PR" or not is_share:
        if is_share:
            raise StatisticRefused(
                f"CloudWatch does not have the statistic {stat}: PR takes values"
            )
        low = _number(long[2], stat) if long[2] else -math.inf
        high = _number(long[4], stat) if long[4] else math.inf
        below = math.fsum(count for value, count in spread if value <= low)
        within = math.fsum(count for value, count in spread if low < value <= high)
        if kind == "PR":
            return 100 * within / total if total else 0.0
        return _of_ranks(kind, spread, below, below + within)
    low = _share(long[2], stat) if long[2] else 0.0
    high = _share(long[4], stat) if long[4] else 1.0
    return _of_ranks(kind, spread, low * total, high * total)


def _number(text: str, stat: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise StatisticRefused(f"CloudWatch does not have the statistic {stat}") from None


def _share(text: str, stat: str) -> float:
    percent = _number(text, stat)
    if not 0 <= percent <= 100:
        raise StatisticRefused(f"CloudWatch does not have the statistic {stat}")
    return percent / 100


def _at_rank(spread: Spread, rank: float) -> float:
    """Return the value at a rank."""
    reached = 0.0
    for value, count in spread:
        reached += count
        if reached >= rank:
            return value
    return spread[-1][0]


def _of_ranks(kind: str, spread: Spread, low: float, high: float) -> float:
    """Return the trimmed or winsorized mean, the count or the sum of the values between two ranks."""
    reached, within = 0.0, list[tuple[float, float]]()
    for value, count in spread:
        share = min(reached + count, high) - max(reached, low)
        if share > 0:
            within.append((value, share))
        reached += count
    count = math.fsum(share for _, share in within)
    total = math.fsum(value * share for value, share in within)
    if kind == "TC":
        return count
    if kind == "TS":
        return total
    if not within:
        return 0.0
    if kind == "WM":
        total += within[0][0] * low + within[-1][0] * (reached - high)
        count = reached
    return total / count


def labelled(get: Any) -> Any:
    """Label metrics as AWS does: by their names, and by statistics and periods where these differ (observed)."""

    @functools.wraps(get)
    def get_metric_data(self: Any, queries: list[dict[str, Any]], *args: Any, **named: Any) -> Any:
        stats = [query["MetricStat"] for query in queries]
        differ = [name for name in ("Stat", "Period") if len({str(one[name]) for one in stats}) > 1]
        labels = {
            query["Id"]: query.get("Label")
            or " ".join([stat["Metric"]["MetricName"], *(str(stat[name]) for name in differ)])
            for query, stat in zip(queries, stats, strict=True)
        }
        results = get(self, queries, *args, **named)
        return [{**one, "label": labels[one["id"]]} for one in results]

    return get_metric_data


def with_messages(get: Any) -> Any:
    """Answer the list of messages, of which headrace has none (observed)."""

    @functools.wraps(get)
    def get_metric_data(self: Any) -> Any:
        answer = get(self)
        answer.result.setdefault("Messages", [])
        return answer

    return get_metric_data


# --- metric math ----------------------------------------------------------------------------------


def with_math(get: Any) -> Any:
    """Evaluate expressions of metric math, of which moto knows names alone."""

    @functools.wraps(get)
    def get_metric_data(
        self: Any,
        queries: list[dict[str, Any]],
        start_time: datetime,
        end_time: datetime,
        scan_by: str = "TimestampAscending",
    ) -> Any:
        from moto.cloudwatch.exceptions import ValidationError

        _check_queries(queries)
        if not any("Expression" in query for query in queries):
            return get(self, queries, start_time, end_time, scan_by)
        stats: list[dict[str, Any]] = [
            {**query, "ReturnData": True} for query in queries if "MetricStat" in query
        ]
        if not stats:
            raise ValidationError("headrace evaluates expressions over metrics alone")
        results = {one["id"]: one for one in get(self, stats, start_time, end_time)}
        try:
            series = _evaluate_expressions(queries, results, start_time, end_time)
        except MathRefused as refusal:
            raise ValidationError(str(refusal)) from None
        labels = {name: one.get("label") for name, one in results.items()}
        is_descending = scan_by == "TimestampDescending"
        return [
            {
                "id": query["Id"],
                "label": query.get("Label") or labels.get(query["Id"]) or query["Id"],
                **_values_and_times(series[query["Id"]], is_descending=is_descending),
                "status_code": "Complete",
            }
            for query in queries
            if str(query.get("ReturnData", True)).lower() != "false"
        ]

    return get_metric_data


def _check_queries(queries: Sequence[Mapping[str, Any]]) -> None:
    """Raise moto's error for queries that are neither metrics nor expressions of metric math."""
    from moto.cloudwatch.exceptions import ValidationError

    if any(query.get("Expression", "").lstrip().upper().startswith("SELECT") for query in queries):
        raise ValidationError("headrace does not run queries of CloudWatch Metrics Insights")
    for query in queries:
        if ("Expression" in query) is ("MetricStat" in query):
            # The rule is documented (API_MetricDataQuery), the sentence is assumed.
            raise ValidationError(
                f"The query {query.get('Id')} must have either MetricStat or Expression"
            )


def _evaluate_expressions(
    queries: Sequence[Mapping[str, Any]],
    results: Mapping[str, Mapping[str, Any]],
    start_time: datetime,
    end_time: datetime,
) -> dict[str, Series]:
    """Return the series of every query, from moto's results for the metrics. Raises MathRefused."""
    periods_s = {
        query["Id"]: int(query["MetricStat"]["Period"])
        for query in queries
        if "MetricStat" in query
    }
    of_metrics = {
        name: {
            round(aware(at).timestamp()): float(value)
            for at, value in zip(one["timestamps"], one["values"], strict=True)
        }
        for name, one in results.items()
    }
    metrics = Metrics(
        of_metrics,
        {query["Id"]: query.get("Label") or query["Id"] for query in queries},
        periods_s,
        _beginnings(start_time, end_time, max(periods_s.values())),
    )
    expressions = [(query["Id"], query["Expression"]) for query in queries if "Expression" in query]
    return evaluate_all(expressions, metrics)


def _values_and_times(series: Series, *, is_descending: bool) -> dict[str, list[Any]]:
    points = sorted(series.items(), reverse=is_descending)
    return {
        "values": [value for _, value in points],
        "timestamps": [datetime.fromtimestamp(at, UTC) for at, _ in points],
    }


def _beginnings(start_time: datetime, end_time: datetime, period_s: int) -> range:
    """Return the beginnings of a range's periods."""
    start_s, end_s = round(aware(start_time).timestamp()), round(aware(end_time).timestamp())
    return range(start_s, end_s, period_s)


def aware(time: datetime) -> datetime:
    """Return a time with a time zone: UTC unless it has one."""
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
