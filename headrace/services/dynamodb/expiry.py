"""Deletes the items of tables whose time to live is over, each within a minute; AWS takes up to days.

Documented: docs.aws.amazon.com/amazondynamodb/latest/developerguide/howitworks-ttl.html and
time-to-live-ttl-streams.html: the attribute is a number of seconds since 1970, a time more than five years ago does
not count, and a stream says that the service deleted the item.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.clock import Clock
from headrace.moto.storage.changes import MOTO_LOCK
from headrace.services.dynamodb.items import delete_item, items_of
from headrace.services.dynamodb.streams import deleting_by_service

log = logging.getLogger(__name__)

LOOK_EVERY_S = 30.0
# Documented; so that a wrong unit deletes nothing.
_OLDEST_S = 5 * 365 * 24 * 3600
# The items that one change deletes: others wait meanwhile.
_MOST_AT_ONCE = 500


class LoadedState(Protocol):
    """moto's state: `MotoEngine` implements it."""

    def is_loaded(self) -> bool:
        """Whether moto currently holds this cloud's state."""
        ...

    def change(self, change: Callable[[], None], service: str = "") -> None:
        """Change moto's state outside a request and store it. Raises AwsError."""
        ...


class ItemExpiry:
    """A `Worker` that deletes expired items."""

    name = "dynamodb-ttl"

    def __init__(self, state: LoadedState, clock: Clock) -> None:
        self._state, self._clock = state, clock

    def step(self) -> float:
        """Look at every table that has a time to live."""
        if self._state.is_loaded():
            with MOTO_LOCK:
                tables = list(_tables())
            for table, attribute in tables:
                self._expire(table, attribute)
        return LOOK_EVERY_S

    def _expire(self, table: Any, attribute: str) -> None:
        now_s = self._clock.now_ms() // 1000
        with MOTO_LOCK:
            items = list(items_of(table))
        # Without the lock: of a million items this takes a third of a second.
        keys = [
            (item.hash_key, item.range_key) for item in items if _is_over(item, attribute, now_s)
        ]
        del items

        def delete(some: list[tuple[Any, Any]]) -> None:
            with deleting_by_service():
                for hash_key, range_key in some:
                    # It may have been written anew since.
                    item = table.get_item(hash_key, range_key)
                    if item is not None and _is_over(item, attribute, now_s):
                        delete_item(table, hash_key, range_key)

        for start in range(0, len(keys), _MOST_AT_ONCE):
            some = keys[start : start + _MOST_AT_ONCE]
            try:
                self._state.change(lambda some=some: delete(some))
            except AwsError as error:
                # They are looked at again.
                log.warning("expired items of %s cannot be deleted: %s", table.name, error.message)
                return


def _tables() -> Iterator[tuple[Any, str]]:
    from moto.dynamodb.models import dynamodb_backends

    for regions in list(cast("Any", dynamodb_backends).values()):
        for backend in list(regions.values()):
            for table in backend.tables.values():
                if table.ttl.get("TimeToLiveStatus") == "ENABLED":
                    yield table, str(table.ttl.get("AttributeName"))


def _is_over(item: Any, attribute: str, now_s: int) -> bool:
    value = item.attrs.get(attribute)
    if value is None or value.type != "N":
        return False
    try:
        return now_s - _OLDEST_S <= Decimal(value.value) < now_s
    except InvalidOperation:
        return False
