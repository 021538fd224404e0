"""Functions of numbers, and the largest and least of values; `headrace/sql/types.py` says what the fields mean."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# A value of SQL is of any type until it is computed.
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

from headrace.sql.conversions import MANY_DIGITS
from headrace.sql.operators import comparable_pair, remainder
from headrace.sql.ordering import greatest, least
from headrace.sql.types import BIGINT, DOUBLE, INT, Function, SqlType, first, present, widest


def _round_type(types: Sequence[SqlType]) -> SqlType:
    if len(types) > 1:
        return types[0]
    if types[0].name != "DECIMAL":
        return BIGINT
    precision, scale = types[0].digits
    # One digit more, as Spark has it: 9.9 is 10.
    return SqlType("DECIMAL", digits=(min(precision - scale + 1, 38), 0))


# As far as Spark finds the digits of a half.
_MOST_OF_HALVES = 17


def _round(number: Any, digits: int = 0) -> Any:
    """Return `number` rounded, a half upwards as in ksqlDB: -1.5 is -1."""
    if isinstance(number, int) and digits >= 0:
        return number
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError(number)
    is_up = number >= 0 or abs(digits) > _MOST_OF_HALVES
    way = ROUND_HALF_UP if is_up else ROUND_HALF_DOWN
    value = Decimal(str(number)).quantize(
        Decimal(1).scaleb(-digits), rounding=way, context=MANY_DIGITS
    )
    return _plain(value, number)


def _plain(value: Decimal, like: Any) -> Any:
    """Return a number of the type that another one has; 0 has no sign, as in Spark's results of these."""
    return type(like)(MANY_DIGITS.add(value, 0))


def _spark_round(number: str, digits: str = "0") -> str:
    """Return Spark's words of the same; its own round() takes a half away from zero."""
    count = int(digits.strip("()L"))
    if not count:
        # Larger ones have no half.
        is_small = f"{number} < 0 AND {number} > -{2**52}"
        return f"CASE WHEN {is_small} THEN floor({number} + 0.5BD) ELSE round({number}) END"
    if abs(count) > _MOST_OF_HALVES:
        return f"round({number}, {count})"
    # As a DECIMAL a number has all its digits, 18 of them after the point: a half has a 5 and zeros.
    written = f"cast(cast({number} AS DECIMAL(38, 18)) AS STRING)"
    half = f"[.][0-9]{{{count}}}50*" if count > 0 else f"5{'0' * (-count - 1)}([.]0*)?"
    rounded, step = f"round({number}, {count})", f"{Decimal(1).scaleb(-count):f}BD"
    up = f"round({rounded} + {step}, {count})"
    return f"CASE WHEN {number} < 0 AND {written} RLIKE '{half}$' THEN {up} ELSE {rounded} END"


def _trunc(number: Any, digits: int | None = None) -> Any:
    """Return `number` without the digits after the point, or after so many of them."""
    if digits is None:
        return math.trunc(number)
    cut = Decimal(str(number)).quantize(Decimal(1).scaleb(-digits), ROUND_DOWN, MANY_DIGITS)
    return _plain(cut, number)


def _spark_trunc(number: str, digits: str | None = None) -> str:
    if digits is None:
        return f"try_cast({number} AS BIGINT)"
    count = int(digits.strip("()L"))
    if count <= 0:
        return f"({number} - {number} % {10**-count}BD)"
    written = f"cast(cast({number} AS DECIMAL(38, 18)) AS STRING)"
    cut = f"regexp_extract({written}, '^-?[0-9]+[.][0-9]{{{min(count, 18)}}}', 0)"
    # What is too large for a DECIMAL has no such digits, and of what is too small they are 0.
    return f"coalesce(cast({cut} AS DECIMAL(38, 18)), if(abs({number}) < 1, 0, {number}))"


def _round_to_whole(number: Any) -> Any:
    value = _round(number)
    return value if isinstance(value, Decimal) else int(value)


# Great circles on a ball, by haversines.
_SPARK_DISTANCE = (
    "({4} * 2 * asin(sqrt(power(sin(({2} - {0}) / 2), 2) "
    "+ cos({0}) * cos({2}) * power(sin(({3} - {1}) / 2), 2))))"
)


_SPARK_RADIUS = "CASE WHEN upper({0}) LIKE 'MI%' THEN 3959 WHEN {0} IS NOT NULL THEN 6371 END"


def _radius(unit: str) -> int:
    """Return the Earth's radius in miles or kilometres, as ksqlDB has it."""
    return 3959 if unit.upper().startswith("MI") else 6371


def _distance(first: float, second: float, third: float, fourth: float, radius: int) -> float:
    a, b, c, d = (math.radians(angle) for angle in (first, second, third, fourth))
    if not all(map(math.isfinite, (a, b, c, d))):
        return math.nan
    height = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return radius * 2 * math.asin(math.sqrt(height))


def _power(base: Any, exponent: Any) -> float:
    """Return a power as Java has it."""
    x, y = float(base), float(exponent)
    if math.isnan(y) or (abs(x) == 1 and math.isinf(y)):
        return math.nan
    try:
        return math.pow(x, y)
    except ValueError:
        if x:
            return math.nan
    except OverflowError:
        pass
    return -math.inf if math.copysign(1, x) < 0 and y % 2 == 1 else math.inf


def _whole_of_double(function: Callable[[Any], int]) -> Callable[[Any], Any]:
    """Return what rounds a number; a DOUBLE as large as 2**53 is whole, as are NaN and the infinities."""

    def rounded(value: Any) -> Any:
        if isinstance(value, Decimal):
            # With as many digits as it has.
            return MANY_DIGITS.add(MANY_DIGITS.subtract(value, value), Decimal(function(value)))
        if not isinstance(value, float):
            return function(value)
        return float(function(value)) if abs(value) < 2**53 else value

    return rounded


def _whole_type(types: Sequence[SqlType]) -> SqlType:
    """Return the type of CEIL and FLOOR, of a DOUBLE a DOUBLE; a DECIMAL may have a digit more."""
    if types[0].name != "DECIMAL":
        return BIGINT if types[0].is_integer else types[0]
    precision, scale = types[0].digits
    return SqlType("DECIMAL", digits=(min(precision + 1, 38), scale))


# Spark would make a BIGINT of a DOUBLE.
_SPARK_WHOLE = "if(abs({{0}}) < 9007199254740992, {{0}} - {{0}} + {}({{0}}), {{0}})"


def _or_nan(function: Callable[[Any], float]) -> Callable[[Any], float]:
    def computed(value: Any) -> float:
        try:
            return function(value)
        except OverflowError:
            return math.copysign(math.inf, value) if function(-1.0) < 0 else math.inf
        except ValueError:
            return math.nan

    return computed


def _log(value: Any, function: Callable[[Any], float]) -> float:
    return -math.inf if value == 0 else math.nan if value < 0 else function(value)


def _log_of(base: Any, value: Any) -> float:
    return _log(value, math.log) / _log(base, math.log)


def _spark_log(value: str, function: str) -> str:
    value = f"cast({value} AS DOUBLE)"
    special = f"WHEN {value} = 0 THEN double('-Infinity') WHEN {value} < 0 THEN double('NaN')"
    return f"(CASE {special} ELSE {function}({value}) END)"


NUMBER_FUNCTIONS: tuple[Function, ...] = (
    Function("ABS", "N", first, "abs({0})", abs),
    Function("CEIL", "N", _whole_type, _SPARK_WHOLE.format("ceil"), _whole_of_double(math.ceil)),
    Function("FLOOR", "N", _whole_type, _SPARK_WHOLE.format("floor"), _whole_of_double(math.floor)),
    Function("ROUND", "NI?", _round_type,
             _spark_round,
             lambda x, n=None: _round_to_whole(x) if n is None else _round(x, n)),
    Function("SQRT", "N", DOUBLE, "sqrt(cast({0} AS DOUBLE))", lambda x: math.sqrt(x) if x >= 0 else math.nan),
    Function("EXP", "N", DOUBLE, "exp(cast({0} AS DOUBLE))", _or_nan(math.exp)),
    Function("LN", "N", DOUBLE, lambda x: _spark_log(x, "ln"), lambda x: _log(x, math.log)),
    Function("LOG", "NN?", DOUBLE,
             lambda x, y=None: (
                 _spark_log(x, "log10") if y is None else f"({_spark_log(y, 'ln')} / {_spark_log(x, 'ln')})"),
             lambda x, y=None: _log(x, math.log10) if y is None else _log_of(x, y)),
    Function("PI", "", DOUBLE, "pi()", lambda: math.pi),
    Function("CBRT", "N", DOUBLE, "cbrt(cast({0} AS DOUBLE))", math.cbrt),
    Function("DEGREES", "N", DOUBLE, "degrees(cast({0} AS DOUBLE))", math.degrees),
    Function("RADIANS", "N", DOUBLE, "radians(cast({0} AS DOUBLE))", math.radians),
    *(
        Function(name, "N", DOUBLE, f"{name.lower()}(cast({{0}} AS DOUBLE))", _or_nan(getattr(math, name.lower())))
        for name in ("SIN", "COS", "TAN", "SINH", "COSH", "TANH", "ASIN", "ACOS", "ATAN")
    ),
    Function("COT", "N", DOUBLE, "(1D / tan(cast({0} AS DOUBLE)))", _or_nan(lambda x: 1 / math.tan(x))),
    Function("ATAN2", "NN", DOUBLE, "atan2({0}, {1})", lambda y, x: math.atan2(y + 0, x + 0)),
    Function("TRUNC", "NI?", lambda t: t[0] if len(t) > 1 else BIGINT, _spark_trunc, _trunc),
    Function("GEO_DISTANCE", "NNNNS?", DOUBLE,
             lambda a, b, c, d, unit="'KM'": _SPARK_DISTANCE.format(
                 *(f"radians({x})" for x in (a, b, c, d)), _SPARK_RADIUS.format(unit)),
             lambda a, b, c, d, unit="KM": _distance(a, b, c, d, _radius(unit))),
    Function("POWER", "NN", DOUBLE, "power({0}, {1})", _power),
    Function("SIGN", "N", INT, "cast(sign({0}) AS INT)", lambda x: (x > 0) - (x < 0)),
    Function("MOD", "NN", widest, "({0} % {1})",
             lambda x, y: remainder(*comparable_pair(x, y))),
    Function("GREATEST", "**+", widest, lambda *a: f"greatest({', '.join(a)})",
             lambda *a: greatest(present(a)), takes_null=True),
    Function("LEAST", "**+", widest, lambda *a: f"least({', '.join(a)})",
             lambda *a: least(present(a)), takes_null=True),
)  # fmt: skip
