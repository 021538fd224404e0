"""What SQL's operators do with values, as Spark without ANSI mode does it: NULL is None.

A job with MATCH_RECOGNIZE has the text after the mark as its own, so that it runs in Python 3.9.
"""

# pyright: reportUnknownLambdaType=false
# A value of SQL is of any type until it is computed.
from __future__ import annotations

# --- of the job too ---
import math
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def moment(since_1970_ms: int) -> datetime:
    """Return the time of some milliseconds since 1970."""
    return EPOCH + timedelta(milliseconds=since_1970_ms)


def all_of(values: Any) -> Any:
    """Return AND of values: False if one is, else None if one is unknown."""
    result: Any = True
    for value in values:
        if value is False:
            return False
        if value is None:
            result = None
    return result


def negate(value: Any) -> Any:
    """Return NOT of a value."""
    return None if value is None else not value


def distinct(left: Any, right: Any) -> bool:
    """Return IS DISTINCT FROM of two values, for which NULL equals NULL."""
    if left is None or right is None:
        return left is not right
    return not equal(left, right)


def is_in(value: Any, *others: Any) -> Any:
    """Return IN of a value and others."""
    if value is None:
        return None
    if any(other is not None and equal(value, other) for other in others):
        return True
    return None if None in others else False


def is_between(value: Any, low: Any, high: Any) -> Any:
    """Return BETWEEN of a value and bounds: False beyond one of them, whatever the other is."""
    pairs = ((value, low), (high, value))
    try:
        return all_of(None if None in pair else not less(*pair) for pair in pairs)
    except (ArithmeticError, TypeError, ValueError):
        # As of other operators: what cannot be compared is NULL.
        return None


def comparable_pair(left: Any, right: Any) -> tuple[Any, Any]:
    """Return two values as ones that can be compared: what stands beside a time is a time, beside a date a day."""
    if isinstance(left, date) and isinstance(right, date) and type(left) is type(right):
        return left, right
    if isinstance(left, date) or isinstance(right, date):
        times = as_time(left), as_time(right)
        if str in (type(left), type(right)) and date in (type(left), type(right)):
            return times[0].date(), times[1].date()
        return times
    if isinstance(right, float) and isinstance(left, (Decimal, int)):
        return float(left), right
    if isinstance(left, float) and isinstance(right, (Decimal, int)):
        return left, float(right)
    return left, right


def as_time(value: Any) -> datetime:
    """Return milliseconds, a date or a text as a time; a text without a zone is in UTC."""
    if isinstance(value, int):
        return moment(value)
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=EPOCH.tzinfo)
    time = datetime.fromisoformat(value.replace("Z", "+00:00"))
    return time.replace(tzinfo=EPOCH.tzinfo) if time.tzinfo is None else time


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal; Spark's NaN equals itself, and is above every other number."""
    left, right = comparable_pair(left, right)
    return left == right or (is_nan(left) and is_nan(right))


def is_nan(value: Any) -> bool:
    """Return whether a value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def less(left: Any, right: Any) -> bool:
    """Return whether a value is less than another one."""
    left, right = comparable_pair(left, right)
    if is_nan(left) or is_nan(right):
        return not is_nan(left)
    return left < right


def quotient(left: Any, right: Any) -> Any:
    """Return a quotient; None of a division by zero."""
    return None if right == 0 else left / right


def whole_quotient(left: int, right: int) -> Any:
    """Return a quotient rounded towards zero, as in Java."""
    if right == 0:
        return None
    absolute = abs(left) // abs(right)
    return absolute if (left < 0) == (right < 0) else -absolute


def remainder(left: Any, right: Any) -> Any:
    """Return what a division leaves, with the dividend's sign, as in Java."""
    if right == 0:
        return None
    if isinstance(left, float) or isinstance(right, float):
        return math.nan if math.isinf(left) else math.fmod(left, right)
    if isinstance(left, int) and isinstance(right, int):
        return left - right * whole_quotient(left, right)
    return left - right * int(left / right)


def _swap_for_interval(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda left, right: (
        function(left, right)
        if isinstance(right, timedelta)
        else function(*comparable_pair(left, right))
    )


# Of two values none of which is None.
BINARY: dict[str, Callable[..., Any]] = {
    "=": equal,
    "<>": lambda left, right: not equal(left, right),
    "<": less,
    ">": lambda left, right: less(right, left),
    "<=": lambda left, right: not less(right, left),
    ">=": lambda left, right: not less(left, right),
    "+": _swap_for_interval(lambda left, right: left + right),
    "-": _swap_for_interval(lambda left, right: left - right),
    "*": _swap_for_interval(lambda left, right: left * right),
    "/": _swap_for_interval(quotient),
    "DIV": whole_quotient,
    "%": _swap_for_interval(remainder),
}
