"""Puts off imports that few runs need: of a name until it is used, of a module's code until somebody looks into it."""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import sys
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any


class _Later:
    """Stands for what a module imports, for a name in that, or for what it returns; imports it at its first use."""

    def __init__(
        self, module: ModuleType, path: str, find: Callable[[], Any] | None = None
    ) -> None:
        self._module = module
        self._path = path
        self._find = functools.cache(find or functools.partial(pkgutil.resolve_name, path))

    def _is_imported(self) -> bool:
        """Whether the module's code has run: until then nothing is used, and annotations name what is in a library."""
        return not getattr(self._module.__spec__, "_initializing", False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self._path}.{name}"
        if not self._is_imported():
            return _Later(self._module, path)
        found = pkgutil.resolve_name(path)
        setattr(self, name, found)
        return found

    def __instancecheck__(self, instance: Any) -> bool:
        """Nothing is an instance of a class whose module has not been imported."""
        return self._path.rpartition(".")[0] in sys.modules and isinstance(instance, self._find())

    def __or__(self, other: Any) -> Any:
        """Stand for a union in an annotation, too."""
        return self

    def __iter__(self) -> Iterator[Any]:
        """Import it now: what is iterated over is needed, whether or not the module's code has run."""
        return iter(self._find())

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self._is_imported():
            return self._find()(*arguments, **named)
        return _Made(self._module, self._path, lambda: self._find()(*arguments, **named))


class _Made(_Later):
    """Stands for what a call returns that a module makes while it is imported."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and not self._is_imported():
            return _Made(self._module, f"{self._path}.{name}", lambda: getattr(self, name))
        return getattr(self._find(), name)


def _import_later(module: ModuleType, paths: Collection[str], instead: Mapping[str, Any]) -> None:
    """Let a module, whose code has not run yet, get stand-ins for all that lies below these dotted paths.

    It gets the objects of `instead` in the place of the modules with their names.
    """

    def import_or_stand_in(
        name: str,
        globals: Any = None,  # noqa: A002 - callers use the names of `builtins.__import__`
        locals: Any = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        whole = name
        if level:
            whole = importlib.util.resolve_name("." * level + name, module.__package__)
        if whole in instead:
            return instead[whole]
        asked = [f"{whole}.{one}." for one in fromlist or ()] or [f"{whole}."]
        if any(one.startswith(f"{path}.") for path in paths for one in asked):
            return _Later(module, whole if fromlist else whole.partition(".")[0])
        return builtins.__import__(name, globals, locals, fromlist, level)

    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": import_or_stand_in}


@contextlib.contextmanager
def imports_later(
    paths_of: Mapping[str, Collection[str]], late: Mapping[str, Mapping[str, Any]]
) -> Generator[None]:
    """Put off imports of libraries that are imported in this context; see `LateFinder`."""
    finder = LateFinder(paths_of, late)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class LateFinder(importlib.abc.MetaPathFinder):
    """Finds the modules whose imports are put off, or that are changed; the other finders find all others.

    Args:
        paths_of: a module -> what it gets stand-ins for.
        late: a module whose code runs when it is needed -> the names that others take from it before, with their
            values; `CLASS` stands for a class.
        changes: a module -> what is called with it once its code has run; no late one.
        instead: a module -> the name of a module that it imports -> what it gets in its place; no late one.
    """

    def __init__(
        self,
        paths_of: Mapping[str, Collection[str]],
        late: Mapping[str, Mapping[str, Any]],
        changes: Mapping[str, Sequence[Callable[[Any], None]]] | None = None,
        instead: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._paths_of = paths_of
        self._late = late
        self._changes = changes or {}
        self._instead = instead or {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder.find_spec`."""
        known = (self._paths_of, self._late, self._changes, self._instead)
        if not any(fullname in names for names in known):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = (
                _LateLoader(fullname, spec.origin, self._late[fullname])
                if fullname in self._late
                else _ChangingLoader(
                    fullname,
                    spec.origin,
                    self._paths_of.get(fullname, ()),
                    self._changes.get(fullname, ()),
                    self._instead.get(fullname, {}),
                )
            )
        return spec


class _ChangingLoader(importlib.machinery.SourceFileLoader):
    def __init__(
        self,
        name: str,
        path: str,
        later: Collection[str],
        changes: Sequence[Callable[[Any], None]],
        instead: Mapping[str, Any],
    ) -> None:
        super().__init__(name, path)
        self._later = later
        self._changes = changes
        self._instead = instead

    def exec_module(self, module: ModuleType) -> None:
        if self._later or self._instead:
            _import_later(module, self._later, self._instead)
        super().exec_module(module)
        for change in self._changes:
            change(module)


# Stands in `LateFinder`'s `late` for a class that others ask objects for before they need the module.
CLASS = object()


class _ClassToCome:
    """Stands for a class of a module whose code has not run yet: nothing is an instance of it before."""

    def __init__(self, known: Callable[[], Any], find: Callable[[], Any]) -> None:
        self._known, self._find = known, find

    def __instancecheck__(self, instance: Any) -> bool:
        known = self._known()
        return known is not self and isinstance(instance, known)

    def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._find(),)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._find()(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._find(), name)


class _LateLoader(importlib.machinery.SourceFileLoader):
    """Runs a module's code when somebody first looks for a name that it has not been given.

    A package's modules are imported without its own code.
    """

    def __init__(self, name: str, path: str, given: Mapping[str, Any]) -> None:
        super().__init__(name, path)
        self._given = given
        self._hooks: dict[str, Callable[..., Any]] = {}
        self._running = threading.RLock()
        self._has_begun = False

    def exec_module(self, module: ModuleType) -> None:
        """See `importlib.abc.Loader.exec_module`."""
        self._hooks = {
            "__getattr__": functools.partial(self._find, module),
            "__dir__": functools.partial(self._list, module),
        }
        self._given = {
            name: self._class_to_come(module, name) if value is CLASS else value
            for name, value in self._given.items()
        }
        vars(module).update(self._given, **self._hooks)

    def _class_to_come(self, module: ModuleType, name: str) -> _ClassToCome:
        def find() -> Any:
            self._run(module)
            return vars(module)[name]

        return _ClassToCome(lambda: vars(module)[name], find)

    def _find(self, module: ModuleType, name: str) -> Any:
        whole = f"{module.__name__}.{name}"
        if "__path__" in vars(module) and importlib.util.find_spec(whole) is not None:
            return importlib.import_module(whole)
        # The import system asks every module whether it is a package.
        if name != "__path__":
            self._run(module)
        if name in vars(module):
            return vars(module)[name]
        own = vars(module).get("__getattr__")
        if own is None or own is self._hooks["__getattr__"]:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return own(name)

    def _list(self, module: ModuleType) -> list[str]:
        self._run(module)
        return sorted(vars(module))

    def _run(self, module: ModuleType) -> None:
        with self._running:
            if self._has_begun:
                return
            self._has_begun = True
            before = dict(vars(module))
            try:
                super().exec_module(module)
            except BaseException:
                self._has_begun = False
                raise
            for name, hook in self._hooks.items():
                # A module may have such a function of its own.
                if vars(module)[name] is hook:
                    del vars(module)[name]
            vars(module).update(
                (name, value)
                for name, value in before.items()
                if not name.startswith("__") and self._is_set(name, value)
            )

    def _is_set(self, name: str, value: Any) -> bool:
        """Whether somebody has set a name, such as a test that puts its own function in the place of a module's."""
        return not isinstance(value, ModuleType) and self._given.get(name, self) is not value
