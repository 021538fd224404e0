"""Rebuilds objects from stored state without running code: shells get the attributes, and at the end their classes.

The unpickler gets only stand-ins from here, never a class of moto's: what the bytes do with one (construct, call, set
attributes) makes an empty shell with plain attributes, or is refused. No `__init__`, `__new__`, `__setstate__`,
property or other method of a stored class runs.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import importlib
import ipaddress
import pickle
import re
import threading
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from headrace.aws.protocols.moto_imports import IMPORTING
from headrace.moto.storage.stored_names import (
    MODULE,
    PLAIN,
    PLAIN_VALUES,
    moto_names,
    old_name,
    stored,
)


def _set_nothing(self: object, name: str, value: object) -> None:
    """Refuse an attribute that is set by itself, which would run a class's properties."""
    raise pickle.UnpicklingError("moto's state sets no single attributes")


@functools.cache
def _shell_type(base: type, *, hashes: bool = True) -> Any:
    """Return the type of shells of classes that add only attributes to `base`."""
    members: dict[str, Any] = {"__setattr__": _set_nothing, "is_shell": True}
    if not hashes:
        members["__hash__"] = None
    shell_type: Any = type(base)("Shell", (base,), members)
    if getattr(shell_type, "__abstractmethods__", None):
        shell_type.__abstractmethods__ = frozenset()
    return shell_type


def _base_of(kind: type) -> type:
    """Return the last base of a class whose objects have no attributes of their own."""
    while kind.__dictoffset__ and kind.__base__ is not None and kind.__base__.__dictoffset__:
        kind = kind.__base__
    return kind.__base__ or object


# The first of these of which a class is derived decides its shell.
_CONTAINERS = (defaultdict, OrderedDict, dict, deque, list)
# Classes whose value is given to their constructor; it is the base's that runs.
_VALUES: tuple[Any, ...] = (tuple, str, int)
# Classes whose objects are keys by their values, so that they have their class from the start. They have no setters,
# and their `__hash__` and `__eq__` only compare.
_KEYS = frozenset({("moto.dynamodb.models.dynamo_type", "DynamoType")})
# The classes of moto that state names as the factory of a dictionary.
_FACTORIES = frozenset(
    {
        ("moto.apigateway.integration_parsers.unknown_parser", "TypeUnknownParser"),
        ("moto.apigatewaymanagementapi.models", "Connection"),
        ("moto.meteringmarketplace.models", "ResultDeque"),
        ("moto.meteringmarketplace.models", "CustomerDeque"),
    }
)


class Shells:
    """The shells of one load."""

    def __init__(self) -> None:
        self._shells: list[tuple[Any, type]] = []
        self._threads: list[Any] = []

    def finish(self) -> None:
        """Make every shell an object of its class."""
        become = object.__setattr__
        for shell, kind in self._shells:
            become(shell, "__class__", kind)
        for thread in self._threads:
            own = vars(threading.Thread())
            vars(thread).update({name: own[name] for name in own if name not in vars(thread)})

    def add(self, shell: Any, kind: type) -> Any:
        """Note a shell of a class, and return it."""
        self._shells.append((shell, kind))
        return shell

    def kind_of(self, value: Any) -> type:
        """Return the class of a value, or that which it will have."""
        if not getattr(type(value), "is_shell", False):
            return type(value)
        return next(kind for shell, kind in reversed(self._shells) if shell is value)

    def ended_thread(self, kind: type) -> Any:
        """Return the shell of a thread, which is not running."""
        shell = self.add(_plain_shell(kind)(), kind)
        self._threads.append(shell)
        return shell


class _Reading(threading.local):
    shells: Shells | None = None


READING = _Reading()


def shells() -> Shells:
    """Return the shells of the load that this thread runs."""
    assert READING.shells is not None
    return READING.shells


class _StandInType(type):
    """The type of stand-ins: neither their attributes can be set, nor those of what they stand for."""

    stands_for: Any
    # What a call makes, and what a construction makes.
    called: Callable[..., Any]
    made: Callable[..., Any]

    def __setattr__(cls, name: str, value: object) -> None:
        raise pickle.UnpicklingError("moto's state changes no class")

    def __call__(cls, *arguments: Any) -> Any:
        return cls.called(*arguments)


def _stand_in_for(what: Any, make: Callable[..., Any], called: Callable[..., Any]) -> type:
    def new(_: type, *arguments: Any) -> Any:
        return make(*arguments)

    members = {
        "__new__": new,
        "__slots__": (),
        "stands_for": staticmethod(what),
        "called": staticmethod(called),
    }
    return type.__call__(_StandInType, f"StandInFor{what.__name__}", (), members)


def _call_class(kind: type, *arguments: Any) -> Any:
    """Return what a call of a class of moto's makes: a member of an enumeration, or a container's shell."""
    if issubclass(kind, enum.Enum):
        (value,) = arguments
        for member in kind:
            if type(member.value) is type(value) and member.value == value:
                return member
        raise pickle.UnpicklingError(f"{kind} has no value {value!r}")
    if issubclass(kind, (dict, list, deque)):
        return shell_of(kind, *arguments)
    raise pickle.UnpicklingError(f"{kind} is not called in moto's state")


def shell_of(kind: type, *arguments: Any) -> Any:
    """Return an empty shell of a class. Raises `pickle.UnpicklingError` when its constructor would need arguments."""
    values: list[Any] = [base for base in _VALUES if base in kind.__mro__]
    if values and not issubclass(kind, enum.Enum):
        # A named tuple is made of its values, all others of one.
        constructor_arguments = (arguments,) if values[0] is tuple else arguments
        return values[0].__new__(kind, *constructor_arguments)
    base = next((base for base in _CONTAINERS if issubclass(kind, base)), None)
    if base is not None:
        factory = [_factory(argument) for argument in arguments] if base is defaultdict else []
        if arguments and not factory and arguments not in (([],), ((),)):
            raise pickle.UnpicklingError(f"{kind} takes no arguments in moto's state")
        return shells().add(_shell_type(base)(*factory), kind)
    if arguments:
        raise pickle.UnpicklingError(f"{kind} takes no arguments in moto's state")
    if (kind.__module__, kind.__qualname__) in _KEYS:
        return object.__new__(kind)
    return shells().add(_plain_shell(kind)(), kind)


@functools.cache
def _plain_shell(kind: type) -> Any:
    # An object that compares by value is no key and no member of a set, before it has its attributes.
    return _shell_type(_base_of(kind), hashes=kind.__hash__ is object.__hash__)


def stand_in(module: str, name: str) -> Any:
    """Return what the unpickler gets for a name. Raises `pickle.UnpicklingError` for a name that is not listed."""
    if (module, name) in PLAIN:
        return PLAIN[module, name]
    if (module, name) in PLAIN_VALUES:
        return _plain_values()[module, name]
    if (module, name) == (MODULE, "named"):
        return _stand_in_for(stand_in_for, stand_in_for, stand_in_for)
    ours = old_name(module, name)
    if ours:
        return stand_in_for(ours)
    if name in moto_names(module) and "." not in name:
        return _of_moto(module, name)
    raise pickle.UnpicklingError(f"{module}.{name} is no part of moto's state")


@functools.cache
def _of_moto(module: str, name: str) -> type:
    with IMPORTING:
        kind: Any = getattr(importlib.import_module(module), name, None)
    if not isinstance(kind, type):
        raise pickle.UnpicklingError(f"moto has no {module}.{name} any more")

    return _stand_in_for(
        kind, functools.partial(shell_of, kind), functools.partial(_call_class, kind)
    )


@functools.cache
def stand_in_for(name: str) -> type:
    """Return the stand-in of what headrace stores under a name: its own classes and functions are called."""
    what = stored(name)

    def call(*arguments: Any) -> Any:
        return what(*map(real, arguments))

    make = functools.partial(shell_of, what) if isinstance(what, type) else call
    return _stand_in_for(what, make, call)


def real(value: Any) -> Any:
    """Return what a stand-in stands for; other values as they are."""
    return value.stands_for if isinstance(value, _StandInType) else value


# --- plain values -------------------------------------------------------------------------------------


def _factory(factory_arguments: Any) -> Any:
    """Return a dictionary's factory. Raises `pickle.UnpicklingError` for one that is not listed."""
    kind = real(factory_arguments)
    is_listed = (
        kind is None
        or kind in PLAIN.values()
        or kind is OrderedDict
        or (getattr(kind, "__module__", ""), getattr(kind, "__qualname__", "")) in _FACTORIES
        or getattr(kind, "is_factory", False)
    )
    if not is_listed:
        raise pickle.UnpicklingError(f"{kind} is no factory of moto's state")
    return kind


def _default_dict(*factory: Any) -> Any:
    return defaultdict(*map(_factory, factory))


class _UuidShell(uuid.UUID):
    """A UUID whose number is still to be read."""

    __slots__ = ()

    def __init__(self) -> None:
        shells().add(self, uuid.UUID)

    def __setstate__(self, state: object) -> None:
        match state:
            case {"int": int(number)} if 0 <= number < 1 << 128:  # pyrefly: ignore[not-callable]
                object.__setattr__(self, "int", number)  # pyrefly: ignore[bad-override]
                object.__setattr__(self, "is_safe", uuid.SafeUUID.unknown)  # pyrefly: ignore[bad-override]
            case _:
                raise pickle.UnpicklingError("no UUID")


def _compile(pattern: str, flags: int) -> re.Pattern[str]:
    return re.compile(str(pattern), int(flags))


def _counter(items: dict[Any, int]) -> Any:
    return Counter(dict(items))


@functools.cache
def _plain_values() -> dict[tuple[str, str], Any]:
    from dateutil.tz import tzutc

    # Nobody can set an attribute of these: they are written in C.
    fixed: dict[tuple[str, str], Any] = {
        (kind.__module__, kind.__name__): kind
        for kind in (
            datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
            OrderedDict, deque,
        )
    }  # fmt: skip
    makers: dict[tuple[str, str], tuple[Any, Callable[..., Any]]] = {
        **{
            ("ipaddress", kind.__name__): (kind, kind)
            for kind in (
                ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv6Address,
                ipaddress.IPv6Network,
            )
        },
        ("collections", "defaultdict"): (defaultdict, _default_dict),
        ("collections", "Counter"): (Counter, _counter),
        ("decimal", "Decimal"): (decimal.Decimal, decimal.Decimal),
        ("dateutil.tz.tz", "tzutc"): (tzutc, tzutc),
        ("re", "_compile"): (_compile, _compile),
        ("uuid", "UUID"): (uuid.UUID, _UuidShell),
    }  # fmt: skip
    return {
        **fixed,
        **{name: _stand_in_for(what, make, make) for name, (what, make) in makers.items()},
    }
