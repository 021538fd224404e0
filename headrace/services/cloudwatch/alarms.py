"""Evaluates CloudWatch's alarms: of a metric, of metric math, and composite ones (their rules: `alarm_rules`).

Source: docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/AlarmThatSendsEmail.html, "Evaluating an alarm" and
"Configuring how CloudWatch alarms treat missing data" (documented, with its tables, which the tests have). How many
periods beyond the evaluation periods are looked at is observed there: two.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import json
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from headrace.core.clock import Clock
from headrace.deliveries.schedule_worker import LoadedState
from headrace.moto.storage import pickles
from headrace.moto.storage.changes import CHANGES, MOTO_LOCK
from headrace.services.cloudwatch import alarm_rules
from headrace.services.cloudwatch.alarm_history import note_change
from headrace.services.cloudwatch.metric_math import MathRefused, Metrics, Series, evaluate_all
from headrace.services.cloudwatch.statistics import StatisticRefused, aware, statistic

log = logging.getLogger(__name__)

LOOK_EVERY_S = 10
EXTRA_PERIODS = 2
_COMPARISONS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanThreshold": (lambda a, b: a > b, "greater than"),
    "GreaterThanOrEqualToThreshold": (lambda a, b: a >= b, "greater than or equal to"),
    "LessThanThreshold": (lambda a, b: a < b, "less than"),
    "LessThanOrEqualToThreshold": (lambda a, b: a <= b, "less than or equal to"),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an evaluation says: a state, or none when the state stays; and the points that decided."""

    state: str | None
    points: Sequence[tuple[int, float]] = ()
    missing: int = 0


def decide(
    points: Sequence[tuple[int, float | None]],
    *,
    periods: int,
    to_alarm: int,
    treat_missing: str,
    breaches: Callable[[float], bool],
) -> Verdict:
    """Decide an alarm's state by the points of its evaluation range, the oldest first.

    Args:
        points: a time and a value a period; None for a period without data.
        periods: the evaluation periods, N.
        to_alarm: the datapoints to alarm, M.
        treat_missing: missing, ignore, breaching or notBreaching.
        breaches: whether a value breaches the threshold.
    """
    real = [(at, value) for at, value in points if value is not None]
    latest = real[-periods:] if len(real) >= periods else real
    missing = periods - len(latest)
    breaching = sum(breaches(value) for _, value in latest)
    if missing > 0 and treat_missing == "breaching":
        breaching += missing
    if breaching >= to_alarm:
        return Verdict("ALARM", latest, missing)
    if missing <= 0 or treat_missing in ("breaching", "notBreaching"):
        return Verdict("OK", latest, missing)
    if any(not breaches(value) for _, value in latest):
        return Verdict("OK", latest, missing)
    if treat_missing == "ignore":
        return Verdict(None, latest, missing)
    # What there is breaches, or there is nothing.
    return Verdict("ALARM" if latest else "INSUFFICIENT_DATA", latest, missing)


# Points


class _Data:
    """The data of a backend in a range of time, by metric."""

    def __init__(self, backend: Any, since_s: float) -> None:
        self._of_metric: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for datum in backend.get_all_metrics():
            if datum.timestamp.replace(tzinfo=datum.timestamp.tzinfo or UTC).timestamp() >= since_s:
                self._of_metric[datum.namespace, datum.name].append(datum)

    def series(
        self, metric: _Metric, ends_s: int, periods: int, period_s: int
    ) -> tuple[Series, list[int]]:
        """Return a metric's points of the periods before a time, and the beginnings of all those periods."""
        times = [ends_s - period_s * (number + 1) for number in reversed(range(periods))]
        windows: dict[int, list[Any]] = defaultdict(list)
        for datum in self._of_metric.get((metric.namespace, metric.name), ()):
            moment = datum.timestamp.replace(tzinfo=datum.timestamp.tzinfo or UTC).timestamp()
            if times[0] <= moment < ends_s and metric.takes(datum):
                windows[times[int((moment - times[0]) // period_s)]].append(datum)
        try:
            return {at: statistic(metric.stat, data) for at, data in windows.items()}, times
        except StatisticRefused as refusal:
            raise MathRefused(str(refusal)) from None


@dataclass(frozen=True, slots=True)
class _Metric:
    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]
    stat: str
    unit: str | None

    def takes(self, datum: Any) -> bool:
        theirs = tuple(sorted((one.name, one.value) for one in datum.dimensions))
        return theirs == self.dimensions and self.unit in (None, "", datum.unit)


def _dimensions(items: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((one.name, one.value) for one in items))


def points_of(alarm: Any, data: _Data, now_s: float) -> list[tuple[int, float | None]]:
    """Return the points of an alarm's evaluation range, the oldest first. Raises MathRefused."""
    if not alarm.metric_data_queries:
        stat = alarm.statistic or alarm.extended_statistic or "Average"
        series, times = _series_of(alarm, stat, data, now_s)
        return [(at, series.get(at)) for at in times]
    return _points_of_math(alarm, data, now_s)


def _series_of(alarm: Any, stat: str, data: _Data, now_s: float) -> tuple[Series, list[int]]:
    """Return a statistic of an alarm's one metric in its evaluation range, and the beginnings of the periods."""
    metric = _Metric(
        alarm.namespace, alarm.metric_name, _dimensions(alarm.dimensions), stat, alarm.unit
    )
    period_s = int(alarm.period)
    periods = int(alarm.evaluation_periods) + EXTRA_PERIODS
    return data.series(metric, _end(now_s, period_s), periods, period_s)


def _points_of_math(alarm: Any, data: _Data, now_s: float) -> list[tuple[int, float | None]]:
    queries = alarm.metric_data_queries
    stats = [query for query in queries if query.metric_stat is not None]
    if not stats:
        raise MathRefused("headrace evaluates expressions over metrics alone")
    period_s = max(int(query.metric_stat.period) for query in stats)
    periods = int(alarm.evaluation_periods) + EXTRA_PERIODS + 1  # one more for RATE
    series: dict[str, Series] = {}
    times: list[int] = []
    for query in stats:
        stat = query.metric_stat
        metric = _Metric(
            stat.metric.namespace, stat.metric.metric_name, _dimensions(stat.metric.dimensions),
            stat.stat, stat.unit,
        )  # fmt: skip
        series[query.id], times = data.series(metric, _end(now_s, period_s), periods, period_s)
    labels = {query.id: query.label or query.id for query in queries}
    given = Metrics(series, labels, dict.fromkeys(series, period_s), times)
    expressions = [
        (query.id, query.expression) for query in queries if query.expression is not None
    ]
    series = evaluate_all(expressions, given)
    returned = [query for query in queries if str(query.return_data).lower() != "false"]
    chosen = returned[-1] if returned else queries[-1]
    if chosen.id not in series:
        raise MathRefused(f"{chosen.id} is neither a metric nor an expression")
    result = series[chosen.id]
    return [(at, result.get(at)) for at in times[1:]]


def _end(now_s: float, period_s: int) -> int:
    """Return when the last period ended: periods of less than a minute end each ten seconds, others each minute."""
    step = 60 if period_s >= 60 else 10
    return int(now_s // step * step)


@dataclass(frozen=True, slots=True)
class _Change:
    name: str
    state: str
    reason: str
    data: str


class AlarmEvaluation:
    """A `Worker` that evaluates all alarms each ten seconds of the cloud's clock. It sleeps while there are none."""

    PACKAGES = ("cloudwatch",)

    name = "alarms"

    def __init__(self, state: LoadedState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def step(self) -> float:
        """Evaluate every alarm; store the states that change, and run their actions."""
        if not self._state.is_loaded():
            return math.inf
        now_s = self._clock.now_ms() / 1000
        with MOTO_LOCK:
            CHANGES.load_deferred("cloudwatch")
            backends = [b for b in pickles.backends_of("cloudwatch").values() if b.alarms]
            changes = [
                (backend, change) for backend in backends for change in _changes(backend, now_s)
            ]
        if changes:
            self._state.change(lambda: _apply(changes))
        return LOOK_EVERY_S - now_s % LOOK_EVERY_S if backends else math.inf


def _apply(changes: Iterable[tuple[Any, _Change]]) -> None:
    for backend, change in changes:
        if change.name in backend.alarms:
            backend.set_alarm_state(change.name, change.reason, change.data, change.state)


def _changes(backend: Any, now_s: float) -> list[_Change]:
    """Return the changes of a backend's alarms: those of metrics first, then the composite ones that see them."""
    alarms = list(backend.alarms.values())
    of_metrics = [alarm for alarm in alarms if not alarm.rule and _has_range(alarm)]
    longest_s = max((_range_s(alarm) for alarm in of_metrics), default=0)
    data = _Data(backend, now_s - longest_s) if of_metrics else None
    changes = [
        change
        for alarm in of_metrics
        if data and (change := _judge(alarm, data, now_s)) is not None
    ]
    states = {alarm.name: alarm.state_value for alarm in alarms} | {
        c.name: c.state for c in changes
    }
    composites = alarm_rules.in_order([alarm for alarm in alarms if alarm.rule])
    for alarm in composites:
        states[alarm.name] = _state_by_rule(alarm, states)
    changes += [
        _change_by_rule(alarm, states, backend.alarms, now_s)
        for alarm in composites
        if states[alarm.name] != alarm.state_value
    ]
    return changes


def _change_by_rule(
    alarm: Any, states: Mapping[str, str], alarms: Mapping[str, Any], now_s: float
) -> _Change:
    now, children = datetime.fromtimestamp(now_s, UTC), list[alarm_rules.Child]()
    for name in alarm_rules.names_in(str(alarm.rule)):
        if (one := alarms.get(name)) is not None:
            since = aware(_transitioned(one)) if states[name] == one.state_value else now
            children.append(alarm_rules.Child(str(one.alarm_arn), states[name], since))
    state, is_new = states[alarm.name], not alarm.state_reason_data
    why = alarm_rules.explain(str(alarm.alarm_arn), state, children, is_new=is_new)
    return _Change(alarm.name, state, *why)


def _state_by_rule(alarm: Any, states: Mapping[str, str]) -> str:
    try:
        holds = alarm_rules.decide_rule(
            alarm.rule, lambda name: states.get(name.rsplit(":alarm:", 1)[-1])
        )
    except alarm_rules.RuleRefused:
        return str(alarm.state_value)  # one of an earlier headrace, which took every rule
    return "ALARM" if holds else "OK"


def _periods_s(alarm: Any) -> list[int]:
    """Return the periods of an alarm's metrics; 0 for one without, which moto takes."""
    stats = [query.metric_stat for query in alarm.metric_data_queries or () if query.metric_stat]
    return [int(one.period or 0) for one in stats or [alarm]]


def _range_s(alarm: Any) -> int:
    periods = int(alarm.evaluation_periods) + EXTRA_PERIODS + 1
    return periods * max(_periods_s(alarm)) + 60


def _has_range(alarm: Any) -> bool:
    """Whether an alarm has periods to evaluate: one without them must not stop the others."""
    periods = int(alarm.evaluation_periods or 0)
    return periods > 0 and min(_periods_s(alarm)) > 0 and not _range_fault(alarm)


def _range_fault(alarm: Any) -> str:
    """Return AWS's sentence for an alarm that looks back too far; empty for others.

    Documented: API_PutMetricAlarm, EvaluationPeriods. The sentence of a day is that of users' reports, the other one
    is assumed.
    """
    longest_s = max(_periods_s(alarm))
    most_s, span = (604_800, "seven days") if longest_s >= 3600 else (86_400, "a day")
    if int(alarm.evaluation_periods or 0) * longest_s <= most_s:
        return ""
    return (
        f"Metrics cannot be checked across more than {span} "
        f"(EvaluationPeriods * Period must be <= {most_s})."
    )


def _judge(alarm: Any, data: _Data, now_s: float) -> _Change | None:
    """Return the change of an alarm's state, if there is one."""
    comparison = _COMPARISONS.get(str(alarm.comparison_operator))
    if comparison is None or alarm.threshold is None or alarm.threshold_metric_id:
        return None  # anomaly detection, which headrace does not evaluate
    compare, words = comparison
    threshold = float(alarm.threshold)
    periods = int(alarm.evaluation_periods)
    to_alarm = int(alarm.datapoints_to_alarm or periods)
    try:
        points = points_of(alarm, data, now_s)
    except MathRefused as refusal:
        log.debug("the alarm %s is not evaluated: %s", alarm.name, refusal)
        return None
    verdict = decide(
        points, periods=periods, to_alarm=to_alarm, treat_missing=alarm.treat_missing_data or "missing",
        breaches=lambda value: compare(value, threshold),
    )  # fmt: skip
    if verdict.state in (None, alarm.state_value):
        return None
    reason = _reason(alarm, verdict, words, threshold, to_alarm)
    times = [at for at, _ in points[-periods:]]
    counts: Series = {}
    if not alarm.metric_data_queries:
        counts, _ = _series_of(alarm, "SampleCount", data, now_s)
    told = _reason_data(alarm, _evaluated(verdict, times, counts), verdict, now_s)
    return _Change(alarm.name, str(verdict.state), reason, told)


def _reason(alarm: Any, verdict: Verdict, words: str, threshold: float, to_alarm: int) -> str:
    if verdict.state == "INSUFFICIENT_DATA":
        count = verdict.missing
        return f"Insufficient Data: {count} datapoint{'s were' if count > 1 else ' was'} unknown."
    if not verdict.points:
        count = verdict.missing
        treated = "Breaching" if verdict.state == "ALARM" else "NonBreaching"
        return (
            f"Threshold Crossed: no datapoints were received for {count} period{'s' if count > 1 else ''} and "
            f"{count} missing datapoint{'s were' if count > 1 else ' was'} treated as [{treated}]."
        )
    breaching = [
        (at, value)
        for at, value in verdict.points
        if _COMPARISONS[alarm.comparison_operator][0](value, threshold)
        is (verdict.state == "ALARM")
    ]
    shown = ", ".join(
        f"{value} ({_moment(at):%d/%m/%y %H:%M:%S})" for at, value in reversed(breaching)
    )
    count, of = len(breaching), len(verdict.points)
    plural = count != 1
    needed = to_alarm if verdict.state == "ALARM" else int(alarm.evaluation_periods) - to_alarm + 1
    missing = (
        verdict.missing
        if verdict.state == "ALARM" and alarm.treat_missing_data == "breaching"
        else 0
    )
    unknown = (
        f" {missing} missing datapoint{'s were' if missing > 1 else ' was'} treated as [Breaching]."
        if missing
        else ""
    )
    if not alarm.datapoints_to_alarm:
        return (
            f"Threshold Crossed: {count} datapoint{'s' if plural else ''} [{shown}] "
            f"{'were' if plural else 'was'} {'' if verdict.state == 'ALARM' else 'not '}{words} "
            f"the threshold ({threshold}).{unknown}"
        )
    return (
        f"Threshold Crossed: {count} out of the last {of} datapoint{'s' if of != 1 else ''} [{shown}] "
        f"{'were' if plural else 'was'} {'' if verdict.state == 'ALARM' else 'not '}{words} "
        f"the threshold ({threshold}) "
        f"(minimum {needed} datapoint{'s' if needed != 1 else ''} for {alarm.state_value} -> {verdict.state} "
        f"transition).{unknown}"
    )


def _moment(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _text_of(at_s: float) -> str:
    return f"{_moment(at_s):%Y-%m-%dT%H:%M:%S}.000+0000"


def _evaluated(verdict: Verdict, times: Sequence[int], counts: Series) -> list[dict[str, Any]]:
    """Return the points that decided, the latest first; without any, the periods that had none."""
    if not verdict.points:
        return [{"timestamp": _text_of(at)} for at in reversed(times)]
    return [
        {
            "timestamp": _text_of(at),
            **({"sampleCount": counts[at]} if at in counts else {}),
            "value": value,
        }
        for at, value in reversed(verdict.points)
    ]


def _reason_data(
    alarm: Any, evaluated: list[dict[str, Any]], verdict: Verdict, now_s: float
) -> str:
    data: dict[str, Any] = {"version": "1.0", "queryDate": _text_of(now_s)}
    if verdict.points:
        data["startDate"] = _text_of(verdict.points[0][0])
    if alarm.unit:
        data["unit"] = alarm.unit
    if alarm.statistic:
        data["statistic"] = alarm.statistic
    return json.dumps(
        {
            **data,
            "period": alarm.period,
            "recentDatapoints": [value for _, value in verdict.points],
            "threshold": alarm.threshold,
            "evaluatedDatapoints": evaluated,
        }
    )


@functools.cache
def patch() -> None:
    """Give alarms the states of evaluated ones: INSUFFICIENT_DATA at first, kept by an update."""
    from moto.cloudwatch.exceptions import ValidationError
    from moto.cloudwatch.models import Alarm, CloudWatchBackend

    model: Any = Alarm
    model.update_state = _note_transition(model.update_state)
    model.state_transitioned_timestamp = property(_transitioned)
    backend: Any = CloudWatchBackend
    put: Any = backend.put_metric_alarm

    @functools.wraps(put)
    def put_metric_alarm(self: Any, *args: Any, **named: Any) -> Any:
        rule = named.get("rule")
        if rule:
            _check_rule(str(rule))
        elif fault := _range_fault(SimpleNamespace(**named)):
            raise ValidationError(fault)
        name = str(named.get("name") or (args[0] if args else ""))
        before = self.alarms.get(name)
        alarm = put(self, *args, **named)
        alarm.metric_data_queries = alarm.metric_data_queries or None  # AWS shows no empty Metrics
        if before is None:
            alarm.state_value = "INSUFFICIENT_DATA"
            alarm.state_reason_data = None
        else:
            for member in (
                "state_value",
                "state_reason",
                "state_reason_data",
                "state_updated_timestamp",
                "transitioned",
                "history",
                "noted",
            ):
                if member in vars(before):
                    setattr(alarm, member, getattr(before, member))
        note_change(alarm, is_new=before is None)
        return alarm

    backend.put_metric_alarm = put_metric_alarm


def _note_transition(update_state: Any) -> Any:
    """Keep the time of the last state that differed from the one before (documented: API_MetricAlarm)."""

    @functools.wraps(update_state)
    def update(self: Any, reason: str, reason_data: str, state_value: str) -> None:
        before = None if state_value != self.state_value else _transitioned(self)
        update_state(self, reason, reason_data, state_value)
        self.transitioned = before or self.state_updated_timestamp

    return update


def _transitioned(alarm: Any) -> datetime:
    """Return when an alarm came to its state; one that an older headrace has stored does not know it."""
    return vars(alarm).get("transitioned") or alarm.state_updated_timestamp


def _check_rule(rule: str) -> None:
    from moto.cloudwatch.exceptions import ValidationError

    try:
        alarm_rules.decide_rule(rule, lambda _: "OK")
    except alarm_rules.RuleRefused as refusal:
        raise ValidationError(str(refusal)) from None
