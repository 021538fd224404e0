"""CloudWatch's metric math: parses an expression over series of points, and evaluates it in bounded time.

Source: docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html (documented).
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

# Points of a series by their time, in seconds since 1970.
Series = dict[int, float]
Value = float | str | Series | list[Series]

# Documented: API_MetricDataQuery, Expression.
MOST_CHARACTERS = 2048
MOST_LEVELS = 50
# headrace's bound for the expressions of one alarm or request: moto answers nobody else meanwhile.
MOST_POINTS = 20_000_000
# Documented: API_GetMetricData, MaxDatapoints.
MOST_TIMES = 100_800
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)|(?P<name>[A-Za-z][A-Za-z0-9_]*)"
    r'|(?P<text>"[^"]*"|\'[^\']*\')|(?P<sign>==|!=|<=|>=|&&|\|\||[-+*/^<>(),\[\]]))'
)
_LEVELS = (("||", "OR"), ("&&", "AND"), ("==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/"))


class MathRefused(ValueError):
    """An expression cannot be evaluated; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """The series that an expression may name.

    Attributes:
        series: by the query's id, in order.
        labels: the label of each id: METRICS("text") chooses by it.
        periods_s: the period of each id.
        times: the beginnings of the range's periods, in order, with or without points.
    """

    series: Mapping[str, Series]
    labels: Mapping[str, str]
    periods_s: Mapping[str, int]
    times: Sequence[int]

    def fillable_times(self) -> Sequence[int]:
        """Return the times, of which each gets a point. Raises MathRefused for too many."""
        if len(self.times) > MOST_TIMES:
            raise MathRefused(
                f"The range has {len(self.times):,} periods, and metric math fills {MOST_TIMES:,} at most"
            )
        return self.times


def evaluate(expression: str, metrics: Metrics) -> Series:
    """Return the series that an expression gives. Raises MathRefused."""
    return _series_from(_Parser(expression, metrics).parse(), expression, metrics)


def _series_from(value: Value, expression: str, metrics: Metrics) -> Series:
    if isinstance(value, dict):
        return value
    if isinstance(value, float):
        # Such as the average of no points.
        return _finite(dict.fromkeys(metrics.fillable_times(), value))
    if isinstance(value, list) and len(value) == 1:
        return value[0]
    raise MathRefused(f"The expression {expression} gives no single time series")


def evaluate_all(expressions: Sequence[tuple[str, str]], metrics: Metrics) -> dict[str, Series]:
    """Evaluate expressions by their ids, which may name each other; return all series. Raises MathRefused."""
    series = dict(metrics.series)
    waiting = list(expressions)
    left = MOST_POINTS
    while waiting:
        known = Metrics(series, metrics.labels, metrics.periods_s, metrics.times)
        later: list[tuple[str, str]] = []
        refusal: MathRefused | None = None
        for name, expression in waiting:
            try:
                parser = _Parser(expression, known)
                left -= parser.count_points()
                if left < 0:
                    break
                series[name] = _series_from(parser.parse(), expression, known)
            except MathRefused as error:
                later.append((name, expression))  # it may name one that comes later
                refusal = refusal or error
        if left < 0:
            raise MathRefused("The expressions have too many points for headrace's metric math")
        if refusal is not None and len(later) == len(waiting):
            raise refusal
        waiting = later
    return series


class _Parser:
    """Evaluates while it reads; recursive descent."""

    def __init__(self, text: str, metrics: Metrics) -> None:
        if len(text) > MOST_CHARACTERS:
            raise MathRefused(f"An expression has at most {MOST_CHARACTERS} characters")
        self._text, self._metrics = text, metrics
        self._tokens: list[tuple[str, str]] = []
        end = 0
        while text[end:].strip():
            match = _TOKEN.match(text, end)
            if match is None:
                raise self._error(text[end:].strip()[:20])
            self._tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            end = match.end()
        self._at = self._level = 0

    def count_points(self) -> int:
        """Return how many points the evaluation may compute: all of a series for each token."""
        metrics = self._metrics
        longest = max([min(len(metrics.times), MOST_TIMES), *map(len, metrics.series.values())])
        # METRICS() is as long as all of them.
        arrays = sum(text == "METRICS" for _, text in self._tokens)
        return len(self._tokens) * longest * (1 + arrays * len(metrics.series))

    def _error(self, near: str) -> MathRefused:
        return MathRefused(f"Error in expression '{self._text}' [Invalid syntax near '{near}']")

    def parse(self) -> Value:
        value = self._operations(0)
        if self._at < len(self._tokens):
            raise self._error(self._tokens[self._at][1])
        return value

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, sign: str = "") -> tuple[str, str]:
        if self._at >= len(self._tokens) or (sign and self._peek() != sign):
            raise self._error(self._peek() or "the end")
        self._at += 1
        return self._tokens[self._at - 1]

    def _operations(self, number: int) -> Value:
        self._level += 1
        if self._level > MOST_LEVELS * len(_LEVELS):
            raise MathRefused(f"An expression has at most {MOST_LEVELS} levels")
        if number == len(_LEVELS):
            value = self._power()
        else:
            value = self._operations(number + 1)
            while self._peek() in _LEVELS[number]:
                sign = self._take()[1]
                value = _combine(sign, value, self._operations(number + 1))
        self._level -= 1
        return value

    def _power(self) -> Value:
        if self._peek() == "-":
            self._take()
            return _combine("*", -1.0, self._power_of())
        return self._power_of()

    def _power_of(self) -> Value:
        value = self._operand()
        if self._peek() == "^":
            self._take()
            return _combine("^", value, self._operand())
        return value

    def _operand(self) -> Value:
        kind, text = self._take()
        if kind == "number":
            return float(text)
        if kind == "text":
            return text[1:-1]
        if text == "(":
            value = self._operations(0)
            self._take(")")
            return value
        if text == "[":
            return [one for value in self._list("]") for one in _series_of(value)]
        if kind != "name":
            raise self._error(text)
        if self._peek() == "(":
            self._take()
            return self._call(text, self._list(")"))
        if text in self._metrics.series:
            return self._metrics.series[text]
        if text in _WORDS:
            return text
        raise MathRefused(f"Error in expression '{self._text}' [Unknown identifier '{text}']")

    def _list(self, end: str) -> list[Value]:
        values: list[Value] = []
        while self._peek() != end:
            values.append(self._operations(0))
            if self._peek() == ",":
                self._take()
            elif self._peek() != end:
                raise self._error(self._peek() or "the end")
        self._take(end)
        return values

    def _call(self, name: str, arguments: list[Value]) -> Value:
        if name == "METRICS":
            wanted = arguments[0] if arguments else ""
            labels = self._metrics.labels
            return [
                s
                for i, s in self._metrics.series.items()
                if not wanted or str(wanted) in labels.get(i, i)
            ]
        if name == "PERIOD" and len(arguments) == 1:
            periods = [
                p
                for i, p in self._metrics.periods_s.items()
                if self._metrics.series[i] is arguments[0]
            ]
            return float(periods[0] if periods else 60)
        if name == "FILL" and len(arguments) == 2:
            filled = [
                _fill(one, self._metrics.fillable_times(), arguments[1])
                for one in _series_of(arguments[0])
            ]
            return filled if isinstance(arguments[0], list) else filled[0]
        if name == "TIME_SERIES" and len(arguments) == 1 and isinstance(arguments[0], float):
            return dict.fromkeys(self._metrics.fillable_times(), arguments[0])
        function = _FUNCTIONS.get(name)
        if function is None:
            raise MathRefused(f"headrace's metric math does not have the function {name}")
        try:
            return function(*arguments)
        except MathRefused:
            raise
        # The functions of `statistics` raise AttributeError for what is infinite.
        except (TypeError, ArithmeticError, ValueError, LookupError, AttributeError) as error:
            raise MathRefused(f"Error in expression '{self._text}' [{name}: {error}]") from error


# The words of FILL.
_WORDS = ("REPEAT", "LINEAR")


def _series_of(value: Value) -> list[Series]:
    if isinstance(value, dict):
        return [value]
    if isinstance(value, list):
        return value
    raise MathRefused("An array of metric math has time series alone")


def _divide(a: float, b: float) -> float:
    return a / b if b else math.nan


_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "^": math.pow,
    "==": lambda a, b: float(a == b),
    "!=": lambda a, b: float(a != b),
    "<": lambda a, b: float(a < b),
    "<=": lambda a, b: float(a <= b),
    ">": lambda a, b: float(a > b),
    ">=": lambda a, b: float(a >= b),
    "&&": lambda a, b: float(bool(a) and bool(b)),
    "AND": lambda a, b: float(bool(a) and bool(b)),
    "||": lambda a, b: float(bool(a) or bool(b)),
    "OR": lambda a, b: float(bool(a) or bool(b)),
}


def _combine(sign: str, left: Value, right: Value) -> Value:
    """Apply an operation to numbers, to the points of series at the same times, or to each series of an array."""
    if isinstance(left, str) or isinstance(right, str):
        raise MathRefused(f"A text has no {sign}")
    if isinstance(left, list):
        return [_one(sign, series, right) for series in left]
    if isinstance(right, list):
        return [_one(sign, left, series) for series in right]
    return (
        _one(sign, left, right)
        if isinstance(left, dict) or isinstance(right, dict)
        else _number(sign, left, right)
    )


def _number(sign: str, left: float, right: float) -> float:
    try:
        return _OPERATIONS[sign](left, right)
    except (ArithmeticError, ValueError):  # 0 ^ -1, the root of a negative number
        return math.nan


def _one(sign: str, left: Value, right: Value) -> Series:
    if isinstance(left, dict):
        other = right if isinstance(right, dict) else dict.fromkeys(left, _scalar(right))
        pairs = {at: (value, other[at]) for at, value in left.items() if at in other}
    elif isinstance(right, dict):
        pairs = {at: (_scalar(left), value) for at, value in right.items()}
    else:
        raise MathRefused(f"{sign} needs numbers or time series")
    # What is no number, such as a division by zero, is no point.
    return _finite({at: _number(sign, a, b) for at, (a, b) in pairs.items()})


def _finite(series: Series) -> Series:
    return {at: value for at, value in series.items() if math.isfinite(value)}


def _scalar(value: Value) -> float:
    if isinstance(value, float):
        return value
    raise MathRefused("Metric math needs a number here")


# Functions


def _map(function: Callable[[float], float]) -> Callable[..., Value]:
    def apply(value: Value) -> Value:
        if isinstance(value, list):
            return [{at: function(v) for at, v in series.items()} for series in value]
        if isinstance(value, dict):
            return {at: function(v) for at, v in value.items()}
        return function(_scalar(value))

    return apply


def _fold(function: Callable[[Sequence[float]], float]) -> Callable[..., Value]:
    """A function that gives a number of one series, and a series of an array: at each time."""

    def apply(value: Value) -> Value:
        if isinstance(value, dict):
            return function(list(value.values())) if value else math.nan
        if isinstance(value, list):
            times = sorted({at for series in value for at in series})
            return {at: function([s[at] for s in value if at in s]) for at in times}
        return _scalar(value)

    return apply


def _steps(function: Callable[[float, int], float]) -> Callable[..., Value]:
    """A function of the difference to the point before, and of the seconds between them."""

    def apply(value: Value) -> Value:
        if isinstance(value, list):
            return [_differences(series, function) for series in value]
        if not isinstance(value, dict):
            raise MathRefused("RATE and DIFF need time series")
        return _differences(value, function)

    return apply


def _differences(series: Series, function: Callable[[float, int], float]) -> Series:
    times = sorted(series)
    return {
        at: function(series[at] - series[before], at - before)
        for before, at in itertools.pairwise(times)
    }


def _running_sum(value: Value) -> Value:
    if isinstance(value, list):
        return [_add_up(series) for series in value]
    if not isinstance(value, dict):
        raise MathRefused("RUNNING_SUM needs time series")
    return _add_up(value)


def _add_up(series: Series) -> Series:
    total, sums = 0.0, Series()
    for at in sorted(series):
        total += series[at]
        sums[at] = total
    return sums


def _fill(series: Series, times: Sequence[int], filler: Value) -> Series:
    filled: Series = {}
    last = math.nan
    for at in times:
        last = series.get(at, last)
        if at in series:
            filled[at] = series[at]
        elif isinstance(filler, dict):
            if at in filler:
                filled[at] = filler[at]
        elif filler in _WORDS:
            if not math.isnan(last):
                filled[at] = last
        else:
            filled[at] = _scalar(filler)
    return filled


def _if(condition: Value, then: Value, otherwise: Value | None = None) -> Value:
    if isinstance(condition, float):
        chosen = then if condition else otherwise
        return Series() if chosen is None else chosen
    if not isinstance(condition, dict):
        raise MathRefused("IF needs a number or a time series")
    values: Series = {}
    for at, holds in condition.items():
        chosen = then if holds else otherwise
        if isinstance(chosen, dict):
            if at in chosen:
                values[at] = chosen[at]
        elif chosen is not None:
            values[at] = _scalar(chosen)
    return values


def _part(name: str) -> Callable[..., Value]:
    def apply(value: Value) -> Value:
        if not isinstance(value, dict):
            raise MathRefused(f"{name} needs a time series")
        moments = {at: datetime.fromtimestamp(at, UTC) for at in value}
        if name == "epoch":
            return {at: float(at) for at in moments}
        if name == "weekday":
            return {at: float(moment.isoweekday()) for at, moment in moments.items()}
        return {at: float(getattr(moment, name)) for at, moment in moments.items()}

    return apply


def _remove_empty(value: Value) -> Value:
    return [series for series in _series_of(value) if series]


def _count(value: Value) -> Value:
    return float(len(_series_of(value)))


def _first(value: Value) -> Value:
    return _series_of(value)[0]


def _last(value: Value) -> Value:
    return _series_of(value)[-1]


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "ABS": _map(abs),
    "CEIL": _map(lambda v: float(math.ceil(v))),
    "FLOOR": _map(lambda v: float(math.floor(v))),
    "LOG": _map(math.log),
    "LOG10": _map(math.log10),
    "AVG": _fold(statistics.fmean),
    "MIN": _fold(min),
    "MAX": _fold(max),
    "SUM": _fold(math.fsum),
    "STDDEV": _fold(statistics.pstdev),
    "DATAPOINT_COUNT": _fold(lambda values: float(len(values))),
    "METRIC_COUNT": _count,
    "RATE": _steps(lambda difference, seconds: difference / seconds),
    "DIFF": _steps(lambda difference, _: difference),
    "DIFF_TIME": _steps(lambda _, seconds: float(seconds)),
    "RUNNING_SUM": _running_sum,
    "IF": _if,
    "REMOVE_EMPTY": _remove_empty,
    "FIRST": _first,
    "LAST": _last,
    "MINUTE": _part("minute"),
    "HOUR": _part("hour"),
    "DAY": _part("weekday"),
    "DATE": _part("day"),
    "MONTH": _part("month"),
    "YEAR": _part("year"),
    "EPOCH": _part("epoch"),
}
