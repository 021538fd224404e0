"""CloudWatch's metric data: points of a minute, later of five minutes and of an hour, as on AWS, up to a limit.

In memory only. moto keeps every value for ever, and scans all of them for each period of a query.
Sources: "Metrics retention" in CloudWatch's user guide (standard resolution: a minute for 15 days, five minutes for 63,
an hour for 455).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import contextlib
import functools
import json
import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage import pickles
from headrace.moto.storage.stored_names import stored_as
from headrace.services.cloudwatch.metric_streams import MINUTES
from headrace.services.cloudwatch.points import Point, Series
from headrace.services.cloudwatch.put_metric_data import put_as_points
from headrace.services.cloudwatch.statistics import (
    MOST_VALUES,
    UNITS,
    StatisticRefused,
    add_value,
    aware,
    labelled,
    statistic,
    values_of,
    with_math,
    with_messages,
)

# How long a value waits for others of its minute; then they become one point.
RAW_MS = 3 * 60 * 1000
# headrace's limits for an account in a region.
MOST_RAW = 20_000
MOST_POINTS = 50_000
# The values that all points tell apart, 3 MB or so. Beyond them a point counts a new value as its nearest.
MOST_SPREAD = 200_000
MOST_PAGES = 100
# The limit of one GetMetricStatistics (documented: API_GetMetricStatistics).
MOST_DATAPOINTS = 1_440
# headrace's limit for one query of GetMetricData: eleven days of seconds.
MOST_PERIODS = 1_000_000
DAY_S = 86_400
# How long points of each period are kept before they are merged into the next longer period.
PERIODS: tuple[tuple[int, int], ...] = ((60, 15 * DAY_S), (300, 63 * DAY_S), (3600, 455 * DAY_S))


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    from moto.cloudwatch.models import CloudWatchBackend, Statistics
    from moto.cloudwatch.responses import CloudWatchResponse

    # moto's method reads the rule, and has the action under only one of its two
    # names.
    response: Any = CloudWatchResponse
    response.put_composite_alarm = response.put_metric_alarm

    backend: Any = CloudWatchBackend
    init: Any = CloudWatchBackend.__init__

    @functools.wraps(init)
    def with_data(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.metric_data = MetricData()

    backend.__init__ = with_data
    backend.put_metric_data = put_as_points(CloudWatchBackend.put_metric_data)
    backend.put_insight_rule = _with_schema(CloudWatchBackend.put_insight_rule)
    backend.get_metric_data = with_math(
        labelled(_within_data(_of_wanted(_of_one_unit(CloudWatchBackend.get_metric_data))))
    )
    backend.get_metric_statistics = _get_metric_statistics
    response.get_metric_data = with_messages(CloudWatchResponse.get_metric_data)
    response.get_metric_statistics = _with_extended(CloudWatchResponse.get_metric_statistics)
    points: Any = Statistics
    points.get_statistics_for_type = _statistic_for_type
    # moto takes only its own class for a set of statistics.
    points.metric_aggregated_list = property(
        lambda self: [datum for datum in self.metric_data if not hasattr(datum, "value")]
    )
    backend.get_filtered_metrics = _get_filtered_metrics
    backend._get_paginated = _few_pages(CloudWatchBackend._get_paginated)
    pickles.register_filter(
        "cloudwatch",
        lambda _, state: {
            **state,
            "metric_data": MetricData(),
            "paged_metric_data": {},
            MINUTES: {},
        },
    )
    pickles.register_carrier("cloudwatch", _keep_data)


def _with_schema(put: Any) -> Any:
    """Let a rule of Contributor Insights show its definition's schema (recorded)."""

    @functools.wraps(put)
    def put_insight_rule(*args: Any, **named: Any) -> Any:
        rule = put(*args, **named)
        with contextlib.suppress(ValueError, TypeError, KeyError):
            schema = json.loads(rule.definition)["Schema"]
            rule.schema = f"{schema['Name']}/{schema['Version']}"
        return rule

    return put_insight_rule


def _keep_data(before: dict[str, Any], backend: Any) -> None:
    backend.metric_data = before["metric_data"]
    setattr(backend, MINUTES, before.get(MINUTES, {}))


@stored_as("cloudwatch_data")
class MetricData:
    """The data of one account and region, in place of moto's list."""

    def __init__(self) -> None:
        # Recent values, each with its time of arrival.
        self._raw: deque[tuple[int, Any]] = deque()
        # For each period, points by their series and time, in the order of their creation.
        self._points: list[OrderedDict[tuple[Series, datetime], Point]] = [
            OrderedDict() for _ in PERIODS
        ]
        # For each period, the newest point of each series: the only one that is not packed.
        self._newest: list[dict[Series, Point]] = [{} for _ in PERIODS]
        self._spread_count = 0

    def __reduce__(self) -> Any:
        return MetricData, ()

    def append(self, datum: Any) -> None:
        """Add a value or a set of statistics."""
        now_ms = CURRENT.clock.now_ms()
        self._raw.append((now_ms, datum))
        while self._raw[0][0] <= now_ms - RAW_MS or len(self._raw) > MOST_RAW:
            self._roll(0, self._raw.popleft()[1])
        self._grow_old(now_ms)

    def __iter__(self) -> Iterator[Any]:
        points = chain.from_iterable(level.values() for level in self._points)
        return chain(list(points), [datum for _, datum in list(self._raw)])

    def __len__(self) -> int:
        return len(self._raw) + sum(map(len, self._points))

    def __add__(self, others: list[Any]) -> list[Any]:
        return [*self, *others]

    def _roll(self, level: int, datum: Any) -> None:
        """Merge a datum into a point of a level's period."""
        at = _floor(datum.timestamp, PERIODS[level][0])
        series = (*_series(datum), datum.unit)
        point = self._points[level].get((series, at))
        if point is None:
            point = self._begin(level, series, at, datum)
            point.spread = dict(values_of(datum))
            self._spread_count += len(point.spread)
            return
        spread = point.spread
        before = len(spread)
        most = MOST_VALUES if self._spread_count < MOST_SPREAD else 1
        for value, times in values_of(datum).items():
            add_value(spread, value, times, most)
        point.spread = spread
        self._spread_count += len(spread) - before
        low, high, count, total = _statistics(datum)
        point.min, point.max = min(point.min, low), max(point.max, high)
        point.sample_count += count
        point.sum += total
        if point is not self._newest[level].get(series):
            point.pack()

    def _begin(self, level: int, series: Series, at: datetime, datum: Any) -> Point:
        """Add a point with a datum's statistics, and pack the one before it."""
        newest, dimensions = self._newest[level], datum.dimensions
        if before := newest.get(series):
            before.pack()
            series, dimensions = before.series, before.dimensions
        point = Point(series, dimensions, at, _statistics(datum))
        self._points[level][series, at] = newest[series] = point
        return point

    def _grow_old(self, now_ms: int) -> None:
        for level, points in enumerate(self._points):
            oldest = datetime.fromtimestamp(now_ms / 1000, UTC) - timedelta(
                seconds=PERIODS[level][1]
            )
            while points:
                point = points[next(iter(points))]
                is_old = aware(point.timestamp) < oldest
                if not is_old and len(self) - len(self._raw) <= MOST_POINTS:
                    break
                points.popitem(last=False)
                if self._newest[level].get(point.series) is point:
                    del self._newest[level][point.series]
                self._spread_count -= len(point.spread)
                if is_old and level + 1 < len(PERIODS):
                    self._roll(level + 1, point)


def _series(datum: Any) -> tuple[Any, ...]:
    dimensions = tuple(sorted((dimension.name, dimension.value) for dimension in datum.dimensions))
    return datum.namespace, datum.name, dimensions


def _statistics(datum: Any) -> tuple[float, float, float, float]:
    """Return the minimum, the maximum, the count and the sum."""
    if hasattr(datum, "value"):
        return datum.value, datum.value, 1.0, datum.value
    return datum.min, datum.max, datum.sample_count, datum.sum


def _floor(time: datetime, period_s: int) -> datetime:
    """Return the start of a time's period, with a time zone if the time has one."""
    into = aware(time).timestamp() % period_s
    return (time - timedelta(seconds=into)).replace(microsecond=0)


# --- reading --------------------------------------------------------------------------------------


class _Wanted:
    """A backend with only some metrics: moto takes those with more dimensions than a query names for the same one."""

    def __init__(self, backend: Any, series: set[tuple[Any, ...]]) -> None:
        self._backend = backend
        self._series_wanted = series
        # Most data are told by this alone.
        self._names = {(namespace, name) for namespace, name, _ in series}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def get_all_metrics(self) -> list[Any]:
        """Return the data that a query can use."""
        everything = self._backend.get_all_metrics()
        return [
            datum
            for datum in everything
            if (datum.namespace, datum.name) in self._names
            and _series(datum) in self._series_wanted
        ]


def _series_of(namespace: str, name: str, dimensions: Iterable[Mapping[str, str]]) -> Any:
    """Return the metric that a query names, in the form of `_series`."""
    pairs = sorted((dimension["Name"], dimension["Value"]) for dimension in dimensions)
    return namespace, name, tuple(pairs)


def _of_wanted(get: Any) -> Any:
    @functools.wraps(get)
    def get_metric_data(self: Any, queries: list[dict[str, Any]], *args: Any, **named: Any) -> Any:
        # A SELECT may use any metric; other queries name theirs.
        if any(query.get("Expression", "").startswith("SELECT") for query in queries):
            return get(self, queries, *args, **named)
        metrics = [query["MetricStat"]["Metric"] for query in queries if "MetricStat" in query]
        wanted = {
            _series_of(metric["Namespace"], metric["MetricName"], metric.get("Dimensions") or ())
            for metric in metrics
        }
        return get(_Wanted(self, wanted), queries, *args, **named)

    return get_metric_data


def _of_one_unit(get: Any) -> Any:
    """Answer a query without a unit from the data in the first unit, and tell that there are others (recorded)."""

    @functools.wraps(get)
    def get_metric_data(
        self: Any,
        queries: list[dict[str, Any]],
        start_time: datetime,
        end_time: datetime,
        *args: Any,
        **named: Any,
    ) -> Any:
        units: dict[Any, set[str]] = {}
        for datum in self.get_all_metrics():
            if start_time <= datum.timestamp < end_time:
                units.setdefault(_series(datum), set()).add(datum.unit or "None")
        asked, messages = list[dict[str, Any]](), dict[str, list[dict[str, str]]]()
        for query in queries:
            stat = query.get("MetricStat") or {"Unit": "None"}
            found: list[str] = []
            if not stat.get("Unit"):
                metric = stat["Metric"]
                series = _series_of(
                    metric["Namespace"], metric["MetricName"], metric.get("Dimensions") or ()
                )
                found = sorted(units.get(series, ()), key=UNITS.index)
            if len(found) > 1:
                query = {**query, "MetricStat": {**stat, "Unit": found[0]}}
                value = f"Multiple units returned: '[{', '.join(found)}]'"
                messages[str(query["Id"])] = [{"code": "MultipleUnits", "value": value}]
            asked.append(query)
        results = get(self, asked, start_time, end_time, *args, **named)
        return [
            {**one, "messages": messages[one["id"]]} if one["id"] in messages else one
            for one in results
        ]

    return get_metric_data


def _within_data(get: Any) -> Any:
    """Query only the times that have data: moto iterates over each period of a query, even over a million."""

    @functools.wraps(get)
    def get_metric_data(
        self: Any,
        queries: list[dict[str, Any]],
        start_time: datetime,
        end_time: datetime,
        *args: Any,
        **named: Any,
    ) -> Any:
        periods_s = [int(one["MetricStat"]["Period"]) for one in queries if "MetricStat" in one]
        for number, period_s in enumerate(periods_s, 1):
            _check_period(period_s, f"MetricDataQueries.member.{number}.MetricStat.Period")
        if start_time >= end_time or not periods_s:
            return get(self, queries, start_time, end_time, *args, **named)
        times = [datum.timestamp for datum in self.get_all_metrics()]
        first, last = (min(times), max(times)) if times else (start_time, start_time)
        # Queries with an expression are run together; otherwise each is run over its own periods.
        is_apart = len(periods_s) == len(queries)
        results: list[Any] = []
        for group in [[one] for one in queries] if is_apart else [queries]:
            own_s = [int(one["MetricStat"]["Period"]) for one in group if "MetricStat" in one]
            # Periods begin as on the whole range: at whole multiples after the start.
            step = timedelta(seconds=math.lcm(*own_s))
            start = start_time + max(0, (first - start_time) // step) * step
            end = min(end_time, last + timedelta(seconds=max(own_s)))
            end = max(start + timedelta(seconds=1), end)
            if (end - start).total_seconds() / min(own_s) > MOST_PERIODS:
                from moto.cloudwatch.exceptions import InvalidParameterCombination

                raise InvalidParameterCombination(
                    f"headrace answers a query of GetMetricData for {MOST_PERIODS:,} periods at most: "
                    "ask for fewer times."
                )
            results += get(self, group, start, end, *args, **named)
        return results

    return get_metric_data


def _get_metric_statistics(
    backend: Any,
    namespace: str,
    metric_name: str,
    start_time: datetime,
    end_time: datetime,
    period: int,
    stats: list[str],
    dimensions: list[dict[str, str]],
    unit: str | None = None,
) -> list[Any]:
    """Return a metric's statistics; the periods begin at the start time, rounded down to a minute (documented)."""
    from moto.cloudwatch.exceptions import InvalidParameterCombination, InvalidParameterValue
    from moto.cloudwatch.models import Statistics

    _check_period(period, "Period")
    if start_time >= end_time:
        raise InvalidParameterValue(
            "The parameter StartTime must be less than the parameter EndTime."
        )
    count = math.ceil((end_time - start_time).total_seconds() / period)
    if count > MOST_DATAPOINTS:
        raise InvalidParameterCombination(
            f"You have requested up to {count:,} datapoints, which exceeds the limit of {MOST_DATAPOINTS:,}. "
            "You may reduce the datapoints requested by increasing Period, or decreasing the time range."
        )
    start = aware(_floor(start_time, min(60, period)))
    points: dict[tuple[int, str], Any] = {}
    wanted = _Wanted(backend, {_series_of(namespace, metric_name, dimensions or ())})
    for datum in wanted.get_all_metrics():
        at = aware(datum.timestamp)
        if start <= at < aware(end_time) and unit in (None, datum.unit or "None"):
            number = int((at - start).total_seconds() // period)
            key = number, datum.unit or "None"
            if key not in points:
                begins = start + timedelta(seconds=number * period)
                points[key] = Statistics(stats, begins, key[1])
            points[key].metric_data.append(datum)
    return [points[key] for key in sorted(points, key=lambda key: key[0])]


def _with_extended(get: Any) -> Any:
    """Answer ExtendedStatistics, which moto leaves out."""

    @functools.wraps(get)
    def get_metric_statistics(self: Any) -> Any:
        answer = get(self)
        names: list[str] = self._get_param("ExtendedStatistics") or []
        for point in answer.result["Datapoints"] if names else ():
            point.extended_statistics = {
                name: _statistic_of(name, point.metric_data) for name in names
            }
        return answer

    return get_metric_statistics


def _statistic_for_type(point: Any, stat: str) -> float:
    return _statistic_of(stat, point.metric_data)


def _statistic_of(stat: str, data: list[Any]) -> float:
    """Return a statistic of a period's data. Raises moto's error for one that CloudWatch does not have."""
    from moto.cloudwatch.exceptions import InvalidParameterValue

    try:
        return statistic(stat, data)
    except StatisticRefused as refusal:
        raise InvalidParameterValue(str(refusal)) from None


def _check_period(period_s: int, path: str) -> None:
    """Raise moto's error for an invalid period (documented: API_MetricStat; the sentence is assumed)."""
    if period_s not in (1, 5, 10, 20, 30) and (period_s < 1 or period_s % 60):
        from moto.cloudwatch.exceptions import InvalidParameterValue

        raise InvalidParameterValue(
            f"The parameter {path} must be 1, 5, 10, 20, 30 or a multiple of 60."
        )


def _get_filtered_metrics(
    backend: Any, metric_name: str, namespace: str, dimensions: list[dict[str, str]]
) -> list[Any]:
    """Return one datum of each metric that matches."""
    series_found: dict[tuple[Any, ...], Any] = {}
    for datum in backend.get_all_metrics():
        series = _series(datum)
        if series not in series_found and datum.filter(namespace, metric_name, dimensions):
            series_found[series] = datum
    return list(series_found.values())


def _few_pages(paginated: Any) -> Any:
    @functools.wraps(paginated)
    def get_paginated(self: Any, metrics: list[Any]) -> Any:
        answer = paginated(self, metrics)
        while len(self.paged_metric_data) > MOST_PAGES:
            del self.paged_metric_data[next(iter(self.paged_metric_data))]
        return answer

    return get_paginated
