"""Pickles moto's services and reads them back, without the parts that must not or cannot be pickled.

A backend is pickled as its name, a collection that is stored as rows as its id, a lock as a new lock. The bytes hold
data only: the names in them are those of an explicit list (`stored_names`), and objects are rebuilt from their
attributes without running any of their code (`shells`).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import copyreg
import functools
import hashlib
import importlib
import inspect
import io
import operator
import pickle
import threading
import types
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from headrace.aws.protocols.moto_imports import IMPORTING
from headrace.moto.storage.changes import CHANGES, Rows, package_of
from headrace.moto.storage.shells import READING, Shells, shell_of, shells, stand_in
from headrace.moto.storage.stored_names import is_known, moto_names, name_of, named, stored_as

# A reducer pickles an object as `__reduce__` does; NotImplemented leaves that to the object.
Reducer = Callable[[Any], Any]

# moto's module and class of a backend, its account and its region.
Where = tuple[str, str, str, str]

_REDUCERS: dict[type, Reducer] = {}
# moto's package -> a function that changes a backend's attributes before they are pickled.
_FILTERS: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {}
# moto's package -> a function that copies in-memory attributes from the old backend to one that was read again.
_CARRIERS: dict[str, Callable[[dict[str, Any], Any], None]] = {}
# moto's package -> a function that changes stored attributes before a backend gets them.
_RESTORERS: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {}
# (module, qualified name) -> replacements for unnamed functions that the state refers to.
_FACTORIES: dict[tuple[str, str], Callable[[], Any]] = {}
# moto's own functions that make what its dictionaries lack.
_FACTORIES_OF_MOTO = (
    ("moto.lakeformation.models", "default_settings"),
    ("moto.xray.models", "SegmentCollection._new_trace_item"),
)


def register_reducer(kind: type, reducer: Reducer) -> None:
    """Pickle objects of `kind`, and of its subclasses, with `reducer`."""
    _REDUCERS[kind] = reducer
    _reducer_of.cache_clear()


def register_filter(package: str, change: Callable[[Any, dict[str, Any]], dict[str, Any]]) -> None:
    """Pass the attributes of a service's backends through `change` before they are pickled."""
    _FILTERS[package] = change


def register_carrier(package: str, carry: Callable[[dict[str, Any], Any], None]) -> None:
    """Let `carry` restore the in-memory parts of a service's backends when their stored state is read again."""
    _CARRIERS[package] = carry


def register_restorer(
    package: str, change: Callable[[Any, dict[str, Any]], dict[str, Any]]
) -> None:
    """Pass the stored attributes of a service's backends through `change`, with the backend, before it gets them."""
    _RESTORERS[package] = change


def register_factory(module: str, qualified_name: str, make: Callable[[], Any]) -> None:
    """Pickle a function that cannot be named (a lambda of moto's) as a name for `make`."""
    _FACTORIES[module, qualified_name] = make


def without(obj: Any, **instead: Any) -> tuple[Any, ...]:
    """Return a reduction of an object with some attributes replaced."""
    new_object: Any = vars(copyreg)["__newobj__"]
    return new_object, (type(obj),), {**vars(obj), **instead}


def shell(kind: type, least: type, **attributes: Any) -> Any:
    """Return a shell of `kind`, which must be derived from `least`, while state is read."""
    if not issubclass(kind, least):
        raise pickle.UnpicklingError(f"{kind} is no {least}")
    instance = shell_of(kind)
    vars(instance).update(attributes)
    return instance


# --- backends -----------------------------------------------------------------------------------


def backends_of(package: str) -> dict[Where, Any]:
    """Return a service's existing backends, by module, class, account and region."""
    from moto.core.base_backend import BackendDict

    by_place: dict[Where, Any] = {}
    backends, within = cast("Any", BackendDict), f"moto.{package}."
    for instance in list(backends._instances):  # noqa: SLF001 - moto has no other list of them
        kind = instance.backend
        if not kind.__module__.startswith(within):
            continue
        for account, regions in list(instance.items()):
            for region, backend in list(regions.items()):
                by_place[kind.__module__, kind.__qualname__, account, region] = backend
    return by_place


def note_held(package: str) -> None:
    """Note in `CHANGES.held` what a service's backends hold, once it has one."""
    from moto.core.base_backend import BaseBackend

    backends = list(backends_of(package).values())
    values = [value for one in backends for value in vars(one).values()]
    if backends:
        kinds = {package_of(type(one)) for one in values if isinstance(one, BaseBackend)}
        CHANGES.held[package] = frozenset({package, *kinds})


def all_packages() -> set[str]:
    """Return the services that have a backend."""
    from moto.core.base_backend import BackendDict

    backends: Any = BackendDict
    return {package_of(instance.backend) for instance in list(backends._instances) if instance}  # noqa: SLF001


@stored_as("backend")
def backend_at(module: str, qualified_name: str, account: str, region: str) -> Any:
    """Return a backend, created if it does not exist. Raises LookupError when moto has no such backend."""
    return backend_dict(module, qualified_name)[account][region]


@stored_as("backends")
@functools.cache
def backend_dict(module: str, qualified_name: str) -> Any:
    """Return moto's dictionary of a service's backends. Raises `pickle.UnpicklingError` for an unlisted name."""
    if qualified_name not in moto_names(module):
        raise pickle.UnpicklingError(f"{module}.{qualified_name} is no part of moto's state")
    from moto.core.base_backend import BackendDict

    with IMPORTING:
        owner = importlib.import_module(module)
    # A copy: another thread's import may add names to the module.
    for value in list(vars(owner).values()):
        if isinstance(value, BackendDict) and value.backend.__qualname__ == qualified_name:
            return value
    raise LookupError(f"moto has no backends {module}.{qualified_name}")


def _reduce_backend(backend: Any) -> Any:
    kind: type = type(backend)
    where = (kind.__module__, kind.__qualname__, backend.account_id, backend.region_name)
    # A backend that a service creates for a comparison is in no dictionary, and is pickled whole.
    known: Any = backend_dict(*where[:2]).get(where[2], {})
    return (backend_at, where) if known.get(where[3]) is backend else NotImplemented


def _reduce_backend_dict(backends: Any) -> Any:
    kind: type = backends.backend
    return backend_dict, (kind.__module__, kind.__qualname__)


# --- what cannot be pickled ---------------------------------------------------------------------


def _reduce_function(function: types.FunctionType) -> Any:
    name = function.__module__, function.__qualname__
    if name not in _FACTORIES:
        # State that was read back contains the replacement itself.
        name = next((known for known, factory in _FACTORIES.items() if factory is function), name)
    return (known_factory, name) if name in _FACTORIES else NotImplemented


@stored_as("factory")
def known_factory(module: str, qualified_name: str) -> Callable[[], Any]:
    """Return the replacement for an unnamed function."""
    make: Any = _FACTORIES[module, qualified_name]
    # A dictionary may have it.
    make.is_factory = True
    return make


def _factory_of_moto(module: str, qualified_name: str) -> Callable[[], Any]:
    def make() -> Any:
        with IMPORTING:
            owner = importlib.import_module(module)
        return operator.attrgetter(qualified_name)(owner)()

    return make


for _name in _FACTORIES_OF_MOTO:
    register_factory(*_name, _factory_of_moto(*_name))


def _reduce_method(method: types.MethodType) -> Any:
    return bound_method, (method.__self__, method.__name__)


@stored_as("method")
def bound_method(owner: Any, name: str) -> Any:
    """Return a bound method of an object of moto's, which may still be a shell; only of those that are listed."""
    kind = shells().kind_of(owner)
    if f"{kind.__qualname__}.{name}" not in moto_names(kind.__module__):
        raise pickle.UnpicklingError(f"{kind}.{name} is no part of moto's state")
    return types.MethodType(inspect.getattr_static(kind, name), owner)


def _reduce_thread(thread: threading.Thread) -> Any:
    own = vars(threading.Thread())
    return ended_thread, (type(thread),), {k: v for k, v in vars(thread).items() if k not in own}


@stored_as("ended_thread")
def ended_thread(kind: type) -> threading.Thread:
    """Return a thread that is not running: the restart ended it."""
    if not issubclass(kind, threading.Thread):
        raise pickle.UnpicklingError(f"{kind} is no thread")
    return shells().ended_thread(kind)


def _reduce_private_key(key: Any) -> Any:
    from cryptography.hazmat.primitives import serialization as s

    der = key.private_bytes(s.Encoding.DER, s.PrivateFormat.PKCS8, s.NoEncryption())
    return private_key, (der,)


@stored_as("private_key")
def private_key(der: bytes) -> Any:
    """Return a private key from its PKCS #8 form."""
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    return load_der_private_key(der, None)


def note_rows(rows: Rows) -> None:
    """Note that the state being pickled refers to these rows."""
    _Pickler.now.rows.append(rows)


def _reduce_rows(rows: Rows) -> Any:
    note_rows(rows)
    return rows_with_id, (type(rows), rows.id)


@stored_as("rows")
def rows_with_id(kind: Any, rows_id: int) -> Rows:
    """Return rows with their stored id; the pickled state sets the object that they belong to."""
    if not issubclass(kind, Rows):
        raise pickle.UnpicklingError(f"{kind} has no rows")
    rows: Rows = kind(int(rows_id))
    if _Unpickler.now is not None:
        _Unpickler.now.append(rows)
    return rows


@functools.cache
def _prepare() -> None:
    from moto.core.base_backend import AccountSpecificBackend, BackendDict, BaseBackend

    for lock, maker in ((threading.Lock(), threading.Lock), (threading.RLock(), threading.RLock)):
        _REDUCERS[type(lock)] = functools.partial(_reduce_new, maker)
    for kind in (threading.Condition, threading.Event):
        _REDUCERS[kind] = functools.partial(_reduce_new, kind)
    _REDUCERS[BaseBackend] = _reduce_backend
    _REDUCERS[BackendDict] = _reduce_backend_dict
    _REDUCERS[AccountSpecificBackend] = _reduce_account
    _REDUCERS[types.FunctionType] = _reduce_function
    _REDUCERS[types.MethodType] = _reduce_method
    _REDUCERS[threading.Thread] = _reduce_thread
    _REDUCERS[Rows] = _reduce_rows
    _reducer_of.cache_clear()


def _reduce_new(maker: Callable[[], Any], _: Any) -> Any:
    return new_lock, (maker.__name__,)


@stored_as("lock")
def new_lock(name: str) -> Any:
    """Return a new `Lock`, `RLock`, `Condition` or `Event`."""
    makers: dict[str, Callable[[], Any]] = {
        "allocate_lock": threading.Lock,
        "lock": threading.Lock,
        "Lock": threading.Lock,
        "RLock": threading.RLock,
        "Condition": threading.Condition,
        "Event": threading.Event,
    }
    return makers[name]()


def _reduce_account(account: Any) -> Any:
    kind: type = account.backend
    return backends_of_account, (kind.__module__, kind.__qualname__, account.account_id)


@stored_as("backends_of_account")
def backends_of_account(module: str, qualified_name: str, account: str) -> Any:
    """Return moto's dictionary of a service's backends in an account."""
    return backend_dict(module, qualified_name)[account]


# --- dump and load ------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _reducer_of(kind: type) -> Reducer | None:
    for ancestor in kind.__mro__:
        if ancestor in _REDUCERS:
            return _REDUCERS[ancestor]
    # Whoever has a key has imported cryptography, which takes 9 MB.
    if kind.__module__.startswith("cryptography.") and _is_private_key(kind):
        return _reduce_private_key
    return None


def _is_private_key(kind: type) -> bool:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    return issubclass(
        kind, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
    )


_NAMED = (type, types.FunctionType, types.BuiltinFunctionType, type(backend_dict))
# Part of Python's message (dictionary, set, OrderedDict) when another thread adds to a collection while it is pickled.
_CHANGED = "during iteration"
_ATTEMPTS = 10


class _Pickler(pickle.Pickler):
    now: _Pickler

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.rows: list[Rows] = []

    def reducer_override(self, obj: Any) -> Any:
        reducer = _reducer_of(type(obj))
        reduced = NotImplemented if reducer is None else reducer(obj)
        if reduced is NotImplemented and isinstance(obj, _NAMED):
            name = name_of(obj)
            if name is not None:
                return named, (name,)
            # Pickled by name, so the reader must be allowed to look it up.
            if not is_known(obj.__module__, obj.__qualname__):
                raise pickle.PicklingError(
                    f"{obj.__module__}.{obj.__qualname__} is no part of moto's state"
                )
        return reduced


class _Unpickler(pickle.Unpickler):
    # The rows found while a snapshot is read.
    now: list[Rows] | None = None

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        return stand_in(module_name, global_name)


def dump(value: Any) -> bytes:
    """Pickle a value of moto's."""
    return _dump(value)[0]


def _dump(value: Any) -> tuple[bytes, list[Rows]]:
    _prepare()
    file = io.BytesIO()
    pickler = _Pickler(file)
    outer = getattr(_Pickler, "now", None)
    _Pickler.now = pickler
    try:
        pickler.dump(value)
    finally:
        if outer is not None:
            _Pickler.now = outer
    return file.getvalue(), pickler.rows


def load(data: bytes) -> Any:
    """Return the unpickled value. Raises `pickle.UnpicklingError` for anything that is not moto's."""
    _prepare()
    outer, READING.shells = READING.shells, Shells()
    try:
        value = _Unpickler(io.BytesIO(data)).load()
        READING.shells.finish()
    finally:
        READING.shells = outer
    return value


def dump_service(package: str) -> tuple[bytes, list[Rows]]:
    """Return all of a service's backends as bytes, and their collections that are stored as rows.

    Raises whatever pickle raises for an object that it cannot take. Other threads read meanwhile, and some reads add to
    moto's dictionaries: then it starts over.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _dump(_states_of(package))
        except RecursionError:
            raise
        except RuntimeError as error:
            if _CHANGED not in str(error):
                raise
    return _dump(_states_of(package))


def digest_of(data: bytes) -> bytes:
    """Return what tells a service's bytes from others."""
    return hashlib.blake2b(data, digest_size=16).digest()


def _states_of(package: str) -> dict[Where, dict[str, Any]]:
    change = _FILTERS.get(package)
    states: dict[Where, dict[str, Any]] = {}
    for where, backend in backends_of(package).items():
        state = dict(vars(backend))
        states[where] = state if change is None else change(backend, state)
    return states


def load_service(data: bytes) -> tuple[Collection[Where], list[Rows]]:
    """Set a service's backends to stored state; return their places, and their rows, which are still empty.

    An attribute that is new in this version of moto has the value of a new backend.
    """
    _Unpickler.now = rows = list[Rows]()
    try:
        states: dict[Where, dict[str, Any]] = load(data)
    finally:
        _Unpickler.now = None
    for where, state in states.items():
        backend = backend_at(*where)
        change = _RESTORERS.get(package_of(type(backend)))
        vars(backend).update(state if change is None else change(backend, state))
    return states.keys(), rows


def _drop_added(where: Where, backend: Any, before: Mapping[str, Any]) -> None:
    """Remove the collections that a backend has got since its state was stored: a load replaces all that it knows."""
    added = [
        name
        for name, value in vars(backend).items()
        if isinstance(value, (dict, list, set)) and value is before.get(name)
    ]
    if added:
        _, _, account, region = where
        first = vars(type(backend)(region, account_id=account))
        for name in added:
            if name not in first:
                del vars(backend)[name]


def take_back(package: str, load: Callable[[], Collection[Where]]) -> None:
    """Restore a service's backends to their stored state through `load`, which returns them; reset the others.

    The backends stay the same objects, since those of other services may refer to them.
    """
    before = {
        where: (backend_there, dict(vars(backend_there)))
        for where, backend_there in backends_of(package).items()
    }
    stored = load()
    for where, (backend, _) in before.items():
        if where not in stored:
            _, _, account, region = where
            vars(backend).clear()
            backend.__init__(region, account_id=account)
    for where, (backend, state) in before.items():
        if where in stored:
            _drop_added(where, backend, state)
    if (carry := _CARRIERS.get(package)) is not None:
        for backend, state in before.values():
            carry(state, backend)
