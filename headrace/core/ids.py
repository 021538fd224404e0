"""Random identifiers from one source with an optional seed, so that a test can get the same ids twice."""

from __future__ import annotations

import random
import string
import threading
import uuid

_ALNUM = string.ascii_letters + string.digits
_UPPER_ALNUM = string.ascii_uppercase + string.digits


class Ids:
    """Makes random identifiers. Thread-safe. With a seed, the same calls give the same ids."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.SystemRandom() if seed is None else random.Random(seed)
        self._lock = threading.Lock()

    def uuid(self) -> str:
        """Return a version-4 UUID in its 36-character form."""
        return str(uuid.UUID(bytes=self.bytes(16), version=4))

    def bytes(self, count: int) -> bytes:  # pyrefly: ignore[not-a-type]
        """Return `count` random bytes."""
        with self._lock:
            return self._random.getrandbits(count * 8).to_bytes(count, "big")

    def hex(self, length: int) -> str:
        """Return `length` lower-case hexadecimal characters."""
        return self.bytes((length + 1) // 2).hex()[:length]

    def alnum_upper(self, length: int) -> str:
        """Return `length` characters of A-Z and 0-9, as in EMR's `j-...` ids."""
        with self._lock:
            return "".join(self._random.choice(_UPPER_ALNUM) for _ in range(length))

    def alnum(self, length: int) -> str:
        """Return `length` letters, upper and lower case, and digits, as in the names that CloudFormation makes."""
        with self._lock:
            return "".join(self._random.choice(_ALNUM) for _ in range(length))

    def seed(self) -> int:
        """Return a seed of random numbers, in as many bits as SQLite stores; access keys' secrets come from one."""
        return int.from_bytes(self.bytes(8), "big") >> 1

    def random(self) -> float:
        """Return a number in [0, 1)."""
        with self._lock:
            return self._random.random()
