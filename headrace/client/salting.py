"""Salts partition keys: a key that is too much for one shard is put under several names. Standard library only."""

from __future__ import annotations

import itertools
from collections.abc import Collection

_SEPARATOR = "#"


class Salt:
    """Gives keys suffixes `#0`, `#1` and so on, in turn. Thread-safe.

        salt = Salt(8, {"customer-7"})
        producer.put(data, key=salt("customer-7"))

    Records keep their order under each salted key, and not over them: use it where a key's order does not matter, or
    where the consumer restores it. `Salt.original` gives the key back.
    """

    def __init__(self, ways: int, keys: Collection[str] | None = None) -> None:
        """Take under how many names a key is put, and which keys (None: all). Raises ValueError below two ways."""
        if ways < 2:
            raise ValueError(f"a salt has at least two ways, not {ways}")
        self._ways, self._keys = ways, None if keys is None else frozenset(keys)
        self._turn = itertools.count()

    def __call__(self, key: str) -> str:
        """Return the key to put a record under."""
        if self._keys is not None and key not in self._keys:
            return key
        return f"{key}{_SEPARATOR}{next(self._turn) % self._ways}"

    def original(self, key: str) -> str:
        """Return the key without its salt; one that this salt does not make comes back as it is."""
        base, separator, turn = key.rpartition(_SEPARATOR)
        is_salted = separator and turn.isdecimal() and int(turn) < self._ways
        return base if is_salted and (self._keys is None or base in self._keys) else key
