"""Dataclasses whose functions are compiled when they are first called: most of a cloud's classes are not used in a run.

The standard library compiles up to six functions for each class while its module is imported: 0.6 ms a class, 0.25 s of
a start (measured: 424 classes). Everything else of a class is made by the standard library at once, and its functions,
when they are needed, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

from headrace.core.late_patterns import late_compile

_standard, _standard_compile = dataclasses.dataclass, re.compile
_COMPARING = ("__repr__", "__eq__", "__hash__")
# What a class may define itself; the standard library then keeps it, complains, or makes something else of it.
_OWN = frozenset(
    {"__init__", *_COMPARING, "__setattr__", "__delattr__", "__getstate__", "__setstate__"}
)
_PACKAGES = ("headrace.", "moto.")


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
    """Whether a class inherits nothing, and has no function of its own that a dataclass gets."""
    return (
        cls.__module__.startswith(_PACKAGES)
        and cls.__bases__ == (object,)
        and options.keys() <= {"frozen", "slots", "kw_only"}
        and "__annotations__" in cls.__dict__
        and _OWN.isdisjoint(cls.__dict__)
    )


def late(
    cls: type[Any], *, frozen: bool = False, slots: bool = False, kw_only: bool = False
) -> type[Any]:
    """Return a class as the dataclass that these options ask for, with functions that compile themselves."""
    body = cls.__dict__
    kept = {
        name: body[name]
        for name in (
            "__annotations__",
            "__doc__",
            "__module__",
            "__post_init__",
            *body["__annotations__"],
        )
        if name in body
    }
    has_text = bool(cls.__doc__)
    if not has_text:
        # It is described by its `__init__`, below.
        cls.__doc__ = cls.__name__
    made = _standard(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)

    def compile_functions(wanted: Sequence[str]) -> dict[str, Any]:
        init = "__init__" in wanted
        twin = _standard(
            type(cls.__name__, (), {**kept, "__qualname__": cls.__qualname__}),
            init=init, repr=not init, eq=not init, frozen=frozen, slots=slots, kw_only=kw_only,
        )  # fmt: skip
        return {name: twin.__dict__[name] for name in wanted}

    # Most classes that are used are only made: what shows and compares them is compiled by itself.
    described = ("__init__",) if has_text else ("__init__", "__doc__")
    for names in (described, _COMPARING if frozen else _COMPARING[:-1]):
        for name in names:
            setattr(made, name, _Late(made, name, partial(compile_functions, names)))
    params = made.__dataclass_params__
    params.init = params.repr = params.eq = True
    if frozen:
        params.frozen = True
        _freeze(made)
        if slots:
            made.__getstate__, made.__setstate__ = _values_of, _set_values  # pyrefly: ignore[bad-assignment]
    else:
        made.__hash__ = None  # pyrefly: ignore[bad-assignment]
    return made


class _Late:
    """A function that is compiled, with its siblings, when anybody asks for it: whoever calls or describes it.

    The text of a class that has none of its own is one of these siblings.
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
        found = functions[self._name]
        return found if isinstance(found, str) else found.__get__(instance, owner)


def _freeze(made: type[Any]) -> None:
    """Let no field be set or deleted, as `frozen` asks."""
    fields = frozenset(field.name for field in dataclasses.fields(made))

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
