"""Importing moto, one thread at a time.

moto's packages import each other in circles. Two threads that import different parts at once can each see the
other's half-made module and fail, so whoever is about to import any of it takes `IMPORTING` (reentrant), and what
both doors share is imported whole the first time.
"""

from __future__ import annotations

import importlib
import threading

IMPORTING = threading.RLock()

_SHARED = (
    "moto",
    "moto.core.utils",
    "moto.core.request",
    "moto.core.routing",
    "moto.core.parse",
    "moto.core.serialize",
    "moto.core.config",
    "moto.core.base_backend",
    "moto.backends",
    "moto.backend_index",
    "moto.moto_api._internal",
    "moto.iam.models",
)
_loaded = threading.Event()


def load_moto() -> None:
    """Import what both doors share; quick after the first time. Thread-safe."""
    if _loaded.is_set():
        return
    with IMPORTING:
        for name in _SHARED:
            importlib.import_module(name)
        _loaded.set()
