"""Records what the current requests have changed in moto: whole services, and single rows of growing collections.

A process has one moto, and so one record. Whoever changes moto's state records it here while it holds `MOTO_LOCK`;
the engine takes the record, and `MotoStorage.save` writes the changes in one transaction. A concurrent read may add
services that it only looked at: they equal their stored state, and nothing is written.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any

# Requests that may change moto run one at a time, for all clouds of this process.
MOTO_LOCK = threading.RLock()

# A row's key in the database's form.
RowKey = int | str | bytes


def package_of(kind: type) -> str:
    """Return moto's package of a class, such as `dynamodb`."""
    return kind.__module__.split(".")[1]


class Rows:
    """A collection of moto's that is stored as rows: a table's items, a queue's messages.

    Its subclass finds the live object; it is pickled as its id only. Not thread-safe: `MOTO_LOCK`.

    Attributes:
        service: moto's package, such as `dynamodb`, whose snapshot refers to these rows.
        id: the key of its rows in the database; random, so that no two are ever alike.
    """

    service = ""

    def __init__(self, rows_id: int | None = None) -> None:
        self.id = new_rows_id() if rows_id is None else rows_id

    def __deepcopy__(self, memo: Any) -> None:
        """Return itself: a copy of a table, such as a backup, is pickled whole."""
        return

    def row_key(self, key: Any) -> RowKey:
        """Return a key that is not in the database's form, such as a tuple, in that form."""
        raise NotImplementedError

    def encode_row(self, key: Any) -> bytes | None:
        """Return the current row; None when it is deleted."""
        raise NotImplementedError

    def keys(self) -> Iterable[Any]:
        """Return the keys of all current rows."""
        raise NotImplementedError

    def clear(self) -> None:
        """Remove all rows; only for rows that belong to no service."""
        raise NotImplementedError

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """Add stored rows to the live object, in the order in which they were first stored; called repeatedly."""
        raise NotImplementedError


class DeliveryRows(Rows):
    """The stored deliveries of moto's services, which are in memory as a whole.

    Attributes:
        has_new: there is a delivery that nobody has been told of; who stores it tells, and sets this to False.
    """

    has_new = False

    def clear(self) -> None:
        """Remove all, before another cloud's are loaded."""
        raise NotImplementedError


def new_rows_id() -> int:
    """Return an id for a `Rows`, of 62 bits."""
    return int.from_bytes(os.urandom(8), "big") >> 2


# Collection -> the changed keys of its rows; None when exactly the current rows are to be stored.
ChangedRows = dict[Rows, set[Hashable] | None]
Act = Callable[[], None]
# The changed services and rows, and what to call when they are stored.
Taken = tuple[set[str], ChangedRows, list[Act]]


class Changes:
    """Everything that changed since the last `take`.

    Attributes:
        new_backends: the services with a backend that a request has created.
        held: service -> itself, and those whose backends its own hold as attributes and change without a look-up: Auto
            Scaling launches instances in the EC2 that it holds.
    """

    def __init__(self) -> None:
        self.new_backends: set[str] = set()
        self.held: dict[str, frozenset[str]] = {}
        # Whether a request that may change something is in progress.
        self.is_watching = False
        # Services whose stored state is loaded on first use.
        self.deferred: dict[str, Callable[[], object]] = {}
        self._loading: set[str] = set()
        self._services: set[str] = set()
        self._rows: ChangedRows = {}
        self._when_stored: list[Act] = []

    def load_deferred(self, package: str) -> None:
        """Load a service's stored state, if that was deferred."""
        if package in self.deferred:
            with MOTO_LOCK:
                load = self.deferred.get(package)
                if load is None or package in self._loading:
                    return
                # Removed only when it is loaded: until then, other users wait for the lock.
                self._loading.add(package)
                try:
                    load()
                    self.deferred.pop(package, None)
                finally:
                    self._loading.discard(package)

    def service(self, package: str) -> None:
        """Note that a service may have changed outside its rows."""
        self._services.add(package)

    def made(self, package: str) -> None:
        """Note a new backend: its ids and times must be stored, even when a read created it."""
        self.new_backends.add(package)

    def row(self, rows: Rows, key: Hashable) -> None:
        """Note that a row was put, changed or removed."""
        keys = self._rows.setdefault(rows, set())
        if keys is not None:
            keys.add(key)

    def all_rows(self, rows: Rows) -> None:
        """Note that every row may be new, and that stored rows which no longer exist are to be deleted."""
        self._rows[rows] = None

    def when_stored(self, act: Act) -> None:
        """Call `act` once the current changes are stored, under `MOTO_LOCK`; never, if they are undone."""
        self._when_stored.append(act)

    def take(self, package: str | None = None) -> Taken:
        """Return the changed services and rows, and what to call when they are stored; start a new record.

        `package` may have changed as a whole, and with it those that it holds. When it is empty, nothing but rows has
        changed: then only services with a new backend are returned.
        """
        services, rows, acts = self.new_backends, self._rows, self._when_stored
        if package != "":
            services = services | self._services
        if package:
            services |= self.held.get(package, {package})
        self._services, self.new_backends, self._rows, self._when_stored = set(), set(), {}, []
        return services, rows, acts


CHANGES = Changes()
