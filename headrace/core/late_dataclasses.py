"""Dataclasses whose functions are compiled when they are first called: most of a cloud's classes are not used in a run.

The standard library compiles up to six functions for each class while its module is imported: 0.6 ms a class, 0.25 s of
a start (measured: 424 classes); to describe the fields took another 0.03 s. Of a class of the usual form only its slots
or defaults are made at once; the standard library makes the rest when it is needed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, cast

from headrace.core.late_patterns import late_compile

_standard, _standard_compile = dataclasses.dataclass, re.compile
_COMPARING = ("__repr__", "__eq__", "__hash__")
_DESCRIBING = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
# What a class may define itself; the standard library then keeps it, complains, or makes something else of it.
_OWN = frozenset(
    {
        "__init__",
        *_COMPARING,
        *_DESCRIBING,
        "__setattr__",
        "__delattr__",
        "__getstate__",
        "__setstate__",
    }
    | {"__slots__"}
)
_NO_FIELDS = ("ClassVar", "InitVar", "KW_ONLY")
_PACKAGES = ("headrace.", "moto.")
# What the text of `__init__` names beside the fields.
_OWN_NAMES = frozenset({"self", "_factory", "_set"})


class _Factory:
    """What `__init__` takes for a value that it makes; described as the standard library's."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


@contextlib.contextmanager
def compiled_when_used() -> Generator[None]:
    """Let modules that are imported in this context get late patterns, and late dataclasses of the usual form."""
    dataclasses.dataclass, re.compile = _dataclass, late_compile
    try:
        yield
    finally:
        dataclasses.dataclass, re.compile = _standard, _standard_compile


def _dataclass(cls: Any = None, /, **options: bool) -> Any:
    """Do what `dataclasses.dataclass` does."""
    if cls is None:
        return partial(_dataclass, **options)
    return late(cls, **options) if _is_usual(cls, options) else _standard(cls, **options)


def _is_usual(cls: type, options: dict[str, bool]) -> bool:
    """Whether a class inherits nothing, has only fields, and has nothing of its own that a dataclass gets."""
    body = cls.__dict__
    return (
        cls.__module__.startswith(_PACKAGES)
        and cls.__bases__ == (object,)
        and options.keys() <= {"frozen", "slots", "kw_only"}
        and _OWN.isdisjoint(body)
        and "__annotations__" in body
        and all(map(_is_field, body["__annotations__"].values()))
    )


def _is_field(annotation: Any) -> bool:
    """Whether an annotation is a field's for sure: a text that names none of what the standard library treats apart."""
    return isinstance(annotation, str) and not any(name in annotation for name in _NO_FIELDS)


def late(
    cls: type[Any], *, frozen: bool = False, slots: bool = False, kw_only: bool = False
) -> type[Any]:
    """Return a class as the dataclass that these options ask for, with all but its slots made when it is asked for."""
    body = cls.__dict__
    fields = tuple(body["__annotations__"])
    kept = {
        name: body[name]
        for name in ("__annotations__", "__doc__", "__module__", "__post_init__", *fields)
        if name in body
    }
    # A class without a text is described by its `__init__`.
    described = ("__init__",) if cls.__doc__ else ("__init__", "__doc__")
    made: Any = _with_slots(cls, fields) if slots else _with_defaults(cls, fields)

    def twin(**wanted: bool) -> type[Any]:
        body = {**kept, "__qualname__": cls.__qualname__}
        return _standard(type(cls.__name__, (), body), slots=slots, kw_only=kw_only, **wanted)

    def compile_functions(wanted: Sequence[str]) -> dict[str, Any]:
        init = "__init__" in wanted
        if wanted == ("__init__",):
            function = _usual_init(cls, kept, frozen=frozen, kw_only=kw_only)
            if function is not None:
                return {"__init__": function}
        body = twin(init=init, repr=not init, eq=not init, frozen=frozen).__dict__
        return {name: body[name] for name in wanted}

    def describe_fields() -> dict[str, Any]:
        body = twin(init=False, repr=False, eq=False).__dict__
        params = body["__dataclass_params__"]
        params.init = params.repr = params.eq = True
        params.frozen = frozen
        return {name: body[name] for name in _DESCRIBING}

    # Most classes that are used are only made: what shows and compares them is compiled by itself.
    compared = _COMPARING if frozen else _COMPARING[:-1]
    for names, make in (
        (described, partial(compile_functions, described)),
        (compared, partial(compile_functions, compared)),
        (_DESCRIBING, describe_fields),
    ):
        for name in names:
            setattr(made, name, _Late(made, name, make))
    if frozen:
        _freeze(made, frozenset(fields))
        if slots:
            made.__getstate__, made.__setstate__ = _values_of, _set_values  # pyrefly: ignore[bad-assignment]
    else:
        made.__hash__ = None  # pyrefly: ignore[bad-assignment]
    return made


def _usual_init(cls: type[Any], kept: dict[str, Any], *, frozen: bool, kw_only: bool) -> Any | None:
    """Return the `__init__` that the standard library makes, in a fifth of the time; None when a field is unusual."""
    if not _OWN_NAMES.isdisjoint(kept["__annotations__"]):
        return None
    names: dict[str, Any] = {"_factory": _FACTORY, "_set": object.__setattr__}
    given: dict[bool, list[str]] = {False: [], True: []}
    steps: list[str] = []
    for name in kept["__annotations__"]:
        field = kept.get(name, dataclasses.MISSING)
        if not isinstance(field, dataclasses.Field):
            if getattr(type(field), "__hash__", None) is None:
                return None  # the standard library refuses such a default
            field = dataclasses.field(default=field)
        field = cast("Any", field)
        by_name = kw_only if field.kw_only is dataclasses.MISSING else field.kw_only
        if not field.init:
            return None
        default, value = f"_dflt_{name}", name
        if field.default_factory is not dataclasses.MISSING:
            names[default] = field.default_factory
            given[by_name].append(f"{name}=_factory")
            value = f"{default}() if {name} is _factory else {name}"
        elif field.default is not dataclasses.MISSING:
            names[default] = field.default
            given[by_name].append(f"{name}={default}")
        elif not by_name and any("=" in one for one in given[False]):
            return None  # the standard library refuses it after one with a default
        else:
            given[by_name].append(name)
        steps.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if "__post_init__" in kept:
        steps.append("self.__post_init__()")
    by_name = ["*", *given[True]] if given[True] else []
    head = f"def __init__({', '.join(['self', *given[False], *by_name])}):"
    made: dict[str, Any] = {}
    text = "\n  ".join([head, *(steps or ["pass"])]).replace("\n", "\n ")
    outer = f"def make({', '.join(names)}):\n {text}\n return __init__"
    exec(outer, sys.modules[cls.__module__].__dict__, made)
    function = made["make"](**names)
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    function.__annotations__ = {**kept["__annotations__"], "return": None}
    return function


def _with_slots(cls: type[Any], fields: tuple[str, ...]) -> type[Any]:
    """Return a class with slots for its fields: nobody can add slots to a class that exists."""
    left_out = {*fields, "__dict__", "__weakref__"}
    body = {name: value for name, value in cls.__dict__.items() if name not in left_out}
    body |= {"__slots__": fields, "__qualname__": cls.__qualname__}
    return type(cls.__name__, (), body)


def _with_defaults(cls: type[Any], fields: tuple[str, ...]) -> type[Any]:
    """Let a class have its fields' defaults in the place of what describes these fields."""
    for name in fields:
        value: Any = cls.__dict__.get(name)
        if not isinstance(value, dataclasses.Field):
            continue
        default = cast("Any", value).default
        if default is dataclasses.MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, default)
    return cls


class _Late:
    """A function that is compiled, with its siblings, when anybody asks for it: whoever calls or describes it.

    The text of a class that has none of its own is one of these siblings. What describes the fields is made so, too.
    """

    def __init__(
        self, made: type[Any], name: str, compile_functions: Callable[[], dict[str, Any]]
    ) -> None:
        self._made = made
        self._name = name
        self._compile_functions = compile_functions

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        functions = self._compile_functions()
        for name, function in functions.items():
            # What somebody has put in its place stays there.
            if isinstance(self._made.__dict__.get(name), _Late):
                setattr(self._made, name, function)
        found: Any = functions[self._name]
        bind = getattr(cast("Any", type(found)), "__get__", None)
        return found if bind is None else bind(found, instance, owner)


def _freeze(made: type[Any], fields: frozenset[str]) -> None:
    """Let no field be set or deleted, as `frozen` asks."""

    def refuse_to_set(self: Any, name: str, value: Any) -> None:
        if type(self) is made or name in fields:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)  # pyrefly: ignore[invalid-argument]

    def refuse_to_delete(self: Any, name: str) -> None:
        if type(self) is made or name in fields:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)  # pyrefly: ignore[invalid-argument]

    setattr(made, "__setattr__", refuse_to_set)  # noqa: B010
    setattr(made, "__delattr__", refuse_to_delete)  # noqa: B010


def _values_of(self: Any) -> list[Any]:
    """Return what pickle keeps of an object that has slots and is frozen."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_values(self: Any, values: Sequence[Any]) -> None:
    """Take back what pickle kept."""
    for field, value in zip(dataclasses.fields(self), values, strict=True):
        object.__setattr__(self, field.name, value)
