"""Lists the classes and functions that moto's pickled state may name: moto's, this package's, and harmless ones.

Unpickling constructs or calls whatever the bytes name, so every other name is refused.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

_HARMLESS: Mapping[str, frozenset[str]] = {
    "builtins": frozenset(
        [
            "set",
            "frozenset",
            "bytearray",
            "complex",
            "range",
            "slice",
            "object",
            "list",
            "dict",
            "tuple",
            "int",
            "float",
            "str",
            "bytes",
            "bool",
        ]
    ),
    "collections": frozenset({"OrderedDict", "defaultdict", "deque", "Counter"}),
    "copyreg": frozenset({"__newobj__", "__newobj_ex__", "_reconstructor"}),
    "datetime": frozenset({"date", "datetime", "time", "timedelta", "timezone"}),
    "dateutil.tz.tz": frozenset({"tzutc", "tzlocal", "tzoffset"}),
    "decimal": frozenset({"Decimal"}),
    "ipaddress": frozenset({"IPv4Address", "IPv4Network", "IPv6Address", "IPv6Network"}),
    "random": frozenset({"Random"}),
    "re": frozenset({"_compile"}),
    "uuid": frozenset({"UUID", "SafeUUID"}),
    "zoneinfo": frozenset({"ZoneInfo"}),
    "_thread": frozenset({"RLock", "allocate_lock"}),
    "threading": frozenset({"Condition", "Event"}),
}


_OURS = ("moto.", "headrace.fallback.")


def check_module(module: str, name: str) -> None:
    """Raise `pickle.UnpicklingError` for a module that must not even be imported while state is read."""
    if module not in _HARMLESS and not module.startswith(_OURS):
        raise pickle.UnpicklingError(f"{module}.{name} is no part of moto's state")


def check_name(module: str, name: str, found: Any) -> None:
    """Raise `pickle.PickleError` for a name that must not be constructed or called while state is read."""
    if name in _HARMLESS.get(module, ()):
        return
    own = getattr(found, "__module__", None) or ""
    if isinstance(found, type) and own.startswith("moto."):
        return
    if own == module and module.startswith("headrace.fallback.") and "." not in name:
        return
    raise pickle.PickleError(f"{module}.{name} is no part of moto's state")
