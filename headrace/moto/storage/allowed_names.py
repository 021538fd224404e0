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

# headrace's own functions and classes that the state may name: the module in which each is now.
_OWN: Mapping[str, frozenset[str]] = {
    "headrace.moto.storage.pickles": frozenset(
        [
            "backend_at",
            "backend_dict",
            "backends_of_account",
            "bound_method",
            "ended_thread",
            "known_factory",
            "new_lock",
            "private_key",
            "rows_with_id",
        ]
    ),
    "headrace.moto.storage.dictionaries": frozenset({"KeptDict"}),
    "headrace.services.cloudwatch.patches": frozenset({"MetricData"}),
    "headrace.services.dynamodb.patches": frozenset({"TableRows", "empty_table"}),
    "headrace.services.dynamodb.streams": frozenset({"StreamRows"}),
    "headrace.services.events.patches": frozenset({"_Archived", "empty_archive"}),
    "headrace.services.glue.patches": frozenset({"PartitionRows"}),
    "headrace.services.iam.patches": frozenset({"_AwsPolicies", "_Policies", "_Sessions"}),
    "headrace.services.logs.patches": frozenset({"_Streams", "empty_group"}),
    "headrace.services.sns.patches": frozenset({"Nothing"}),
    "headrace.services.sqs.messages": frozenset({"FifoMessages", "Messages"}),
    "headrace.services.ssm.patches": frozenset({"ParameterRows", "empty_parameters"}),
}
# Where they were when older data directories were written.
_MOVED: Mapping[str, str] = {
    "headrace.fallback.kept.pickles": "headrace.moto.storage.pickles",
    "headrace.fallback.kept.dictionaries": "headrace.moto.storage.dictionaries",
    "headrace.fallback.services.cloudwatch": "headrace.services.cloudwatch.patches",
    "headrace.fallback.services.dynamodb": "headrace.services.dynamodb.patches",
    "headrace.fallback.services.dynamodb_streams": "headrace.services.dynamodb.streams",
    "headrace.fallback.services.events": "headrace.services.events.patches",
    "headrace.fallback.services.glue": "headrace.services.glue.patches",
    "headrace.fallback.services.iam": "headrace.services.iam.patches",
    "headrace.fallback.services.logs": "headrace.services.logs.patches",
    "headrace.fallback.services.sns": "headrace.services.sns.patches",
    "headrace.fallback.services.sqs_messages": "headrace.services.sqs.messages",
    "headrace.fallback.services.ssm": "headrace.services.ssm.patches",
}


def current_module(module: str) -> str:
    """Return the module in which the objects of a stored module are today."""
    return _MOVED.get(module, module)


def check_module(module: str, name: str) -> None:
    """Raise `pickle.UnpicklingError` for a module that must not even be imported while state is read."""
    if not (module in _HARMLESS or name in _OWN.get(module, ()) or module.startswith("moto.")):
        raise pickle.UnpicklingError(f"{module}.{name} is no part of moto's state")


def check_name(module: str, name: str, found: Any) -> None:
    """Raise `pickle.PickleError` for a name that must not be constructed or called while state is read."""
    if name in _HARMLESS.get(module, ()) or name in _OWN.get(module, ()):
        return
    own = getattr(found, "__module__", None) or ""
    if isinstance(found, type) and own.startswith("moto."):
        return
    raise pickle.PickleError(f"{module}.{name} is no part of moto's state")
