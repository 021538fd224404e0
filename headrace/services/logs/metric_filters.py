"""What new log events give to CloudWatch, by metric filters and embedded; and filter patterns in moto's calls.

Documented: "Creating metrics from log events using filters". Observed by others: the sentence about dimensions of
patterns of terms (terraform-provider-aws issue 22105). Assumed: an event that lacks a dimension's or the value's field
gives no value; the default value is given once for the events of a request and a minute none of which matches.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import contextlib
import functools
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headrace.core.patterns import MatchingBudget, MatchTooLong
from headrace.core.ports import Metric
from headrace.moto.current_cloud import CURRENT
from headrace.services.logs.filter_patterns import (
    FilterPattern,
    InvalidFilterPattern,
    parse_filter_pattern,
    select_text,
)

log = logging.getLogger(__name__)

# Documented: of a log group (PutMetricFilter). What one request may take to match is a multiple of the second.
_MOST_FILTERS = 100
_MOST_FILTERS_WITH_REGEX = 5
_MINUTE_MS = 60_000


class PreparedPattern(str):
    """A pattern's text with what its matches in one request may spend; moto passes it on as text."""

    budget: MatchingBudget

    @classmethod
    def of(cls, text: str | None) -> PreparedPattern:
        """Return a pattern for one request. Raises moto's InvalidParameterException."""
        prepared = cls(text or "")
        prepared.budget = MatchingBudget()
        parse(prepared)
        return prepared


class EventMessageFilter:
    """Has the interface of moto's class of this name."""

    def __init__(self, pattern: str | None) -> None:
        self._pattern = parse(pattern or "")
        self._budget = pattern.budget if isinstance(pattern, PreparedPattern) else MatchingBudget()

    def matches(self, message: str) -> bool:
        """Say whether a message matches. Raises moto's InvalidParameterException when the request's budget is spent."""
        try:
            return self._pattern.match(message, self._budget) is not None
        except MatchTooLong:
            raise refuse("The filter pattern takes too long to match the log events.") from None


def refuse(message: str) -> Exception:
    """Return an InvalidParameterException."""
    from moto.logs.exceptions import InvalidParameterException

    return InvalidParameterException(message)


def parse(text: str) -> FilterPattern:
    """Parse a pattern. Raises moto's InvalidParameterException."""
    try:
        return parse_filter_pattern(str(text))
    except InvalidFilterPattern as error:
        raise refuse(str(error)) from None


def patch() -> None:
    """Replace moto's methods; called once."""
    import moto.logs.models as models
    from moto.logs.responses import LogsResponse

    module: Any = models
    module.EventMessageFilter = EventMessageFilter
    backend, group, response = models.LogsBackend, models.LogGroup, LogsResponse
    _wrap(backend, "put_metric_filter", _put_metric_filter)
    _wrap(backend, "put_subscription_filter", _put_subscription_filter)
    _wrap(backend, "delete_log_group", _delete_log_group)
    _wrap(group, "put_subscription_filter", _replace_subscription_filter)
    _wrap(group, "put_log_events", _put_log_events)
    _wrap(group, "to_describe_dict", _to_describe_dict)
    response.test_metric_filter = _test_metric_filter  # pyright: ignore[reportAttributeAccessIssue]


def _wrap(owner: Any, name: str, around: Any) -> None:
    method = getattr(owner, name)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        return around(self, method, *args, **named)

    setattr(owner, name, call)


def _put_metric_filter(
    self: Any, put: Any, filter_name: str, filter_pattern: str, log_group_name: str, transformations: Any
) -> None:  # fmt: skip
    from moto.logs.exceptions import ResourceNotFoundException

    pattern = parse(filter_pattern)
    if log_group_name not in self.groups:
        raise ResourceNotFoundException(msg="The specified log group does not exist.")
    for transformation in transformations:
        if transformation.get("dimensions"):
            if pattern.kind == "terms":
                raise refuse("The specified filter pattern does not support dimensions")
            if transformation.get("defaultValue") is not None:
                raise refuse(
                    "Invalid metric transformation: dimensions and default value are mutually exclusive properties."
                )
    filters = self.filters.metric_filters
    before = [one for one in filters if one["logGroupName"] == log_group_name]
    others = [one for one in before if one["filterName"] != filter_name]
    if len(others) >= _MOST_FILTERS:
        raise _limit_exceeded()
    group = self.groups[log_group_name]
    _check_regexes(pattern, [*others, *_subscriptions_of(group)])
    # Documented: a filter of the same name is replaced.
    filters[:] = [one for one in filters if one not in before or one in others]
    put(self, filter_name, filter_pattern, log_group_name, transformations)
    filters[-1]["creationTime"] = CURRENT.clock.now_ms()


def _check_regexes(pattern: FilterPattern, others: Iterable[Mapping[str, Any]]) -> None:
    """Raise moto's LimitExceededException when a group has too many filters with regular expressions."""
    if not pattern.regexes:
        return
    count = 1
    for one in others:
        with contextlib.suppress(
            InvalidFilterPattern
        ):  # an earlier headrace stored it; it is not applied
            count += parse_filter_pattern(one["filterPattern"] or "").regexes > 0
    if count > _MOST_FILTERS_WITH_REGEX:
        raise _limit_exceeded()


def _subscriptions_of(group: Any) -> list[dict[str, Any]]:
    return [
        {"filterName": one.name, "filterPattern": one.filter_pattern}
        for one in group.subscription_filters.values()
    ]


def _limit_exceeded() -> Exception:
    from moto.logs.exceptions import LimitExceededException

    return LimitExceededException()


def _put_subscription_filter(
    self: Any, put: Any, log_group_name: str, filter_name: str, filter_pattern: str, *rest: Any
) -> None:
    pattern = parse(filter_pattern)
    group = self.groups.get(log_group_name)
    if group is not None:
        others = [one for one in _subscriptions_of(group) if one["filterName"] != filter_name]
        _check_regexes(pattern, [*others, *filters_of(group)])
    put(self, log_group_name, filter_name, filter_pattern, *rest)


def _replace_subscription_filter(self: Any, put: Any, filter_name: str, *more: Any) -> None:
    """Documented: a filter of the same name is replaced; moto refuses that when a group has two, the most."""
    known = self.subscription_filters.get(filter_name)
    if known is not None:
        known.update(*more)
    else:
        put(self, filter_name, *more)


def _delete_log_group(self: Any, delete: Any, log_group_name: str) -> None:
    delete(self, log_group_name)
    filters = self.filters.metric_filters
    filters[:] = [one for one in filters if one["logGroupName"] != log_group_name]


def filters_of(group: Any) -> list[dict[str, Any]]:
    """Return the metric filters of a log group."""
    from moto.logs.models import logs_backends

    backends: Any = logs_backends
    filters = backends[group.account_id][group.region].filters.metric_filters
    return [one for one in filters if one["logGroupName"] == group.name]


def _to_describe_dict(self: Any, describe: Any) -> dict[str, Any]:
    return {**describe(self), "metricFilterCount": len(filters_of(self))}


def _put_log_events(self: Any, put: Any, log_stream_name: str, log_events: list[Any]) -> Any:
    if CURRENT.metrics is None:
        return put(self, log_stream_name, log_events)
    metrics = embedded_metrics(self.name, log_events)
    for one in filters_of(self):
        metrics += filter_metrics(one, log_events)
    answer = put(self, log_stream_name, log_events)
    if metrics:
        CURRENT.metrics.put(metrics, account=self.account_id, region=self.region)
    return answer


def match_events(
    text: str, events: Iterable[Any], *, what: str
) -> list[tuple[Any, Mapping[str, str]]] | None:
    """Return the events that match a pattern, and what each match extracts.

    Never raises: None for a pattern that is none, or that takes too long; `what` has it, for the log.
    """
    budget = MatchingBudget()
    try:
        pattern = parse_filter_pattern(text)
        matches = [(event, pattern.match(event["message"], budget)) for event in events]
    except (InvalidFilterPattern, MatchTooLong) as error:
        log.warning("%s is not applied to log events: %s", what, error or "it takes too long")
        return None
    return [(event, extracted) for event, extracted in matches if extracted is not None]


def _minute_ms(event: Any) -> int:
    return int(event["timestamp"]) // _MINUTE_MS * _MINUTE_MS


def filter_metrics(metric_filter: Mapping[str, Any], events: Iterable[Any]) -> list[Metric]:
    """Return what a metric filter makes of new events. Never raises."""
    what = f"The metric filter {metric_filter['filterName']}"
    events = list(events)
    matches = match_events(metric_filter["filterPattern"], events, what=what)
    if matches is None:
        return []
    metrics: list[Metric] = []
    for transformation in metric_filter["metricTransformations"]:
        minutes = {_minute_ms(event) for event in events}
        for event, extracted in matches:
            minutes.discard(_minute_ms(event))
            metrics += _metric(
                transformation, int(event["timestamp"]), _Event(event["message"], extracted)
            )
        default = transformation.get("defaultValue")
        if default is not None:
            metrics += [
                _make_metric(transformation, float(default), (), minute)
                for minute in sorted(minutes)
            ]
    return metrics


class _Event:
    """A matching event's fields by selector."""

    def __init__(self, message: str, extracted: Mapping[str, str]) -> None:
        self._message, self._extracted = message, extracted

    def text(self, selector: str) -> str | None:
        """Return a field's text; a text that is no selector stands for itself."""
        if not selector.startswith("$"):
            return selector
        if selector in self._extracted:
            return self._extracted[selector]
        return select_text(selector, self._message)


def _metric(transformation: Mapping[str, Any], timestamp_ms: int, event: _Event) -> list[Metric]:
    dimensions = [
        (name, event.text(selector))
        for name, selector in (transformation.get("dimensions") or {}).items()
    ]
    try:
        value = float(event.text(str(transformation["metricValue"])) or "")
    except ValueError:
        return []
    known = tuple((name, text[:1024]) for name, text in dimensions if text and _is_text(text))
    if len(known) < len(dimensions) or not _is_value(value):
        return []
    return [_make_metric(transformation, value, known, timestamp_ms)]


# CloudWatch refuses what these refuse, and with it the values that are sent along. Documented: MetricDatum, Dimension.


def _is_value(value: float) -> bool:
    return abs(value) <= 2.0**360  # not for NaN


def _is_text(text: Any) -> bool:
    # Lone surrogates, which JSON can carry, are not printable.
    return isinstance(text, str) and bool(text.strip()) and text.isprintable()


def _make_metric(
    transformation: Mapping[str, Any], value: float, dimensions: tuple[tuple[str, str], ...], timestamp_ms: int
) -> Metric:  # fmt: skip
    return Metric(
        namespace=transformation["metricNamespace"],
        name=transformation["metricName"],
        value=value,
        unit=transformation.get("unit") or "None",
        dimensions=dimensions,
        timestamp_ms=timestamp_ms,
    )


# --- embedded metrics ----------------------------------------------------------------------------

_MOST_DIMENSIONS = 30
_MOST_DEFINITIONS = 100
_MOST_VALUES = 100
_NO_TIME_MS = 250_000_000_000_000
# Of one request; as many wait for CloudWatch at most. The sets of dimensions and the definitions of one event multiply.
_MOST_EMBEDDED = 100_000


def embedded_metrics(group: str, events: Iterable[Any]) -> list[Metric]:
    """Return the metrics that events carry in CloudWatch's embedded metric format. Never raises.

    Documented: "Specification: Embedded metric format". What is not in it gives no value, and counts as
    EMFValidationErrors of AWS/Logs.
    """
    metrics: list[Metric] = []
    errors = 0
    for event in events:
        message = event["message"]
        if '"_aws"' not in message or '"CloudWatchMetrics"' not in message:
            continue
        try:
            metrics += _read_embedded(json.loads(message), _MOST_EMBEDDED - len(metrics))
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ):
            errors += 1
    if errors:
        of_group = (("LogGroupName", group),)
        now_ms = CURRENT.clock.now_ms()
        metrics.append(Metric("AWS/Logs", "EMFValidationErrors", errors, "Count", of_group, now_ms))
    return metrics


def _read_embedded(event: Any, most: int) -> list[Metric]:
    """Return the metrics of an event, at most so many. Raises ValueError and whatever else a wrong form meets."""
    timestamp_ms = int(event["_aws"]["Timestamp"])
    if not 0 <= timestamp_ms < _NO_TIME_MS:
        raise ValueError
    parts: list[tuple[str, list[Any], list[tuple[str, str, float]]]] = []
    for directive in event["_aws"]["CloudWatchMetrics"]:
        namespace, definitions = directive["Namespace"], directive["Metrics"]
        if not _is_text(namespace) or len(definitions) > _MOST_DEFINITIONS:
            raise ValueError
        sets = [tuple((name, event[name]) for name in names) for names in directive["Dimensions"]]
        parts.append((namespace, sets, [*_read_embedded_values(event, definitions)]))
    if sum(len(sets) * len(data) for _, sets, data in parts) > most:
        raise ValueError
    for _, sets, _ in parts:
        for dimensions in sets:
            if len(dimensions) > _MOST_DIMENSIONS or not all(
                _is_text(name) and _is_text(text) for name, text in dimensions
            ):
                raise ValueError
    return [
        Metric(namespace, name, value, unit, dimensions, timestamp_ms)
        for namespace, sets, data in parts
        for dimensions in sets
        for name, unit, value in data
    ]


def _read_embedded_values(event: Any, definitions: Any) -> Iterator[tuple[str, str, float]]:
    """Yield each value's name, unit and number."""
    for definition in definitions:
        name, unit = definition["Name"], definition.get("Unit") or "None"
        values = event[name]
        if not _is_text(name) or not _is_text(unit):
            raise ValueError
        for value in (values if isinstance(values, list) else [values])[:_MOST_VALUES]:
            if not _is_value(float(value)):
                raise ValueError
            yield name, unit, float(value)


def _test_metric_filter(self: Any) -> str:
    """TestMetricFilter: which messages match, and what is extracted from each."""
    pattern, budget = parse(self._get_param("filterPattern") or ""), MatchingBudget()
    matches: list[dict[str, Any]] = []
    for number, message in enumerate(self._get_param("logEventMessages"), 1):
        try:
            extracted = pattern.match(message, budget)
        except MatchTooLong:
            raise refuse("The filter pattern takes too long to match the log events.") from None
        if extracted is not None:
            matches.append(
                {"eventNumber": number, "eventMessage": message, "extractedValues": dict(extracted)}
            )
    return json.dumps({"matches": matches})
