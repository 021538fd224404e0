"""Converts values between types as Spark casts them, and to JSON."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportMissingTypeStubs=false
# A value of SQL is of any type until it is computed; re2 has no types.
from __future__ import annotations

import base64
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from headrace.sql.operators import EPOCH
from headrace.sql.types import SqlType

_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_BOUNDS = {"INT": 2**31, "BIGINT": 2**63}


def millis(moment: datetime) -> int:
    """Return a time as milliseconds since 1970."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def text(value: Any) -> str:
    """Return a value as text, as Spark's cast writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, datetime):
        written = value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        return written + (f".{value.microsecond:06}".rstrip("0") if value.microsecond else "")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def _double_text(value: float) -> str:
    """Return a DOUBLE as Java writes it: 1.0E10, not 1e+10."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def cast(value: Any, type_: SqlType) -> Any:
    """Return a value as another type; None if it is none of that type's. Raises ValueError for some of them."""
    match type_.name:
        case "STRING":
            return text(value)
        case "BOOLEAN":
            return _boolean(value)
        case "INT" | "BIGINT":
            return _whole(value, _BOUNDS[type_.name])
        case "DOUBLE":
            return float(value.strip()) if isinstance(value, str) else float(value)
        case "DECIMAL":
            return decimal(value, type_)
        case "TIMESTAMP":
            return value if isinstance(value, datetime) else _read_time(value)
        case "DATE":
            return (
                value.date()
                if isinstance(value, datetime)
                else date.fromisoformat(value.strip()[:10])
            )
        case "BYTES":
            return value if isinstance(value, bytes) else value.encode()
        case "ARRAY":
            return [None if item is None else cast(item, type_.of[0]) for item in value]
        case "MAP":
            return {
                cast(k, type_.of[0]): None if v is None else cast(v, type_.of[1])
                for k, v in value.items()
            }
        case "STRUCT":
            parts = zip(type_.fields, type_.of, strict=False)
            return {
                name: None if value.get(name) is None else cast(value[name], of)
                for name, of in parts
            }
        case _:
            return value


def _boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        word = value.strip().lower()
        return True if word in _TRUE else False if word in _FALSE else None
    return bool(value)


def _whole(value: Any, bound: int) -> int | None:
    if isinstance(value, str):
        number: Any = Decimal(value.strip())
    elif isinstance(value, datetime):
        number = millis(value) // 1000
    else:
        number = value
    whole = int(number)
    return whole if -bound <= whole < bound else None


def decimal(value: Any, type_: SqlType) -> Decimal | None:
    """Return a number as a DECIMAL of that many digits; None if it has more."""
    precision, scale = type_.digits
    try:
        number = Decimal(str(value).strip()).quantize(
            Decimal(1).scaleb(-scale), rounding="ROUND_HALF_UP"
        )
    except InvalidOperation:
        return None
    return number if len(number.as_tuple().digits) <= precision else None


def _read_time(value: Any) -> datetime:
    if isinstance(value, (int, float)):
        return EPOCH + timedelta(seconds=value)
    parsed = datetime.fromisoformat(value.strip())
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def as_json(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return (
            int(value)
            if value == value.to_integral_value() and value.as_tuple().exponent == 0
            else float(value)
        )
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return _double_text(value)
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {text(key): as_json(item) for key, item in value.items()}
    return value
