"""Replaces the machine's clock by the cloud's in modules of moto, so that their times agree with the cloud's."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from datetime import UTC, datetime
from types import ModuleType
from typing import Any

from headrace.moto.current_cloud import CURRENT


def utcnow() -> datetime:
    """Return the time in moto's form: UTC, without a time zone."""
    return datetime.fromtimestamp(CURRENT.clock.now_ms() / 1000, UTC).replace(tzinfo=None)


def unix_time(dt: datetime | None = None) -> float:
    """Return a time, or now, in seconds."""
    at = utcnow() if dt is None else dt
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def unix_time_millis(dt: datetime | None = None) -> float:
    """Return a time, or now, in milliseconds."""
    return unix_time(dt) * 1000.0


def use_clock(*modules: ModuleType) -> None:
    """Make modules of moto read the cloud's clock."""
    for module in modules:
        names: dict[str, Any] = vars(module)
        for own in (utcnow, unix_time, unix_time_millis):
            if own.__name__ in names:
                names[own.__name__] = own
