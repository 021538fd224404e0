"""Notes what the current requests have changed in moto: whole services, and single rows of collections that grow.

moto is one to a process, so this is too. Whoever changes moto's state notes it here while it holds `MOTO_LOCK`;
`KeptState.save` takes the notes and writes the changes in one transaction. A reader beside the lock may add names of
services that it only looked at: they are compared with what is stored, and nothing is written.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any

# Requests that may change moto run one at a time, whichever cloud of this process they are for.
MOTO_LOCK = threading.RLock()

# A row's key as the database holds it.
RowKey = int | str | bytes


class Rows:
    """Something in moto that is kept row by row: a table's items, a queue's messages.

    Its subclass finds the live object; what is pickled of it is its id only. Not thread-safe: `MOTO_LOCK`.

    Attributes:
        service: moto's package, such as `dynamodb`, whose snapshot says that these rows are there.
        id: what its rows are filed under; random, so that no two are ever alike.
    """

    service = ""

    def __init__(self, rows_id: int | None = None) -> None:
        self.id = new_rows_id() if rows_id is None else rows_id

    def __deepcopy__(self, memo: Any) -> None:
        """Stay with the original: a copy of a table, such as a backup, is pickled whole."""
        return

    def row_key(self, key: Any) -> RowKey:
        """Return `key` as the database holds it."""
        return key

    def encoded(self, key: Any) -> bytes | None:
        """Return the row as it is now; None when it is gone."""
        raise NotImplementedError

    def keys(self) -> Iterable[Any]:
        """Return the keys of all rows there are."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget all rows; only of rows that belong to no service."""
        raise NotImplementedError

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """Add what was stored to the live object, in the order in which it was first stored; in several calls."""
        raise NotImplementedError


def new_rows_id() -> int:
    """Return an id for a `Rows`, of 62 bits."""
    return int.from_bytes(os.urandom(8), "big") >> 2


# By what is kept row by row, the keys of the rows; None for all of them, and no others.
RowsTouched = dict[Rows, set[Hashable] | None]


class Touched:
    """What was touched since the last `take`."""

    def __init__(self) -> None:
        # Whether a request that may change something is under way.
        self.is_watching = False
        # Services whose stored state is loaded when they are first asked for.
        self.deferred: dict[str, Callable[[], object]] = {}
        self._loading: set[str] = set()
        self._services: set[str] = set()
        self._made: set[str] = set()
        self._rows: RowsTouched = {}

    def load_deferred(self, package: str) -> None:
        """Load a service's stored state, if that was put off."""
        if package in self.deferred:
            with MOTO_LOCK:
                load = self.deferred.get(package)
                if load is None or package in self._loading:
                    return
                # Off the list only when it is done: until then, others who ask wait for the lock.
                self._loading.add(package)
                try:
                    load()
                    self.deferred.pop(package, None)
                finally:
                    self._loading.discard(package)

    def service(self, package: str) -> None:
        """The service may have changed other than in its rows."""
        self._services.add(package)

    def made(self, package: str) -> None:
        """The service has a new backend, whose ids and times must stay what they are, even if by a read."""
        self._made.add(package)

    @property
    def has_made(self) -> bool:
        """Whether a backend was made."""
        return bool(self._made)

    def row(self, rows: Rows, key: Hashable) -> None:
        """A row was put, changed or removed."""
        keys = self._rows.setdefault(rows, set())
        if keys is not None:
            keys.add(key)

    def all_rows(self, rows: Rows) -> None:
        """Every row may be new, and those that are stored and not there any more go."""
        self._rows[rows] = None

    def take(self, *, with_services: bool = True) -> tuple[set[str], RowsTouched]:
        """Return the services and rows that were touched, and begin anew.

        Without `with_services`, only those services that have a new backend.
        """
        services, made, rows = self._services, self._made, self._rows
        self._services, self._made, self._rows = set(), set(), {}
        return (services | made if with_services else made), rows


TOUCHED = Touched()
