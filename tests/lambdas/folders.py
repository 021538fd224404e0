"""Loads a function as Lambda does: its folder first on the path, its modules under their own plain names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

LAMBDAS = Path(__file__).parents[2] / "lambdas"
_NAMES = ("handler", "logic", "writer", "aggregation", "user_records")


def load(folder: str) -> tuple[ModuleType, ModuleType]:
    """Return the `handler` and `logic` of a function; other functions' modules stay as they are."""
    handler, logic = load_modules(folder, "handler", "logic")
    return handler, logic


def load_module(folder: str, name: str) -> ModuleType:
    """Return one module of a function."""
    (module,) = load_modules(folder, name)
    return module


def load_modules(folder: str, *names: str) -> list[ModuleType]:
    """Return modules of a function, which see each other."""
    others = {name: sys.modules.pop(name) for name in _NAMES if name in sys.modules}
    sys.path.insert(0, str(LAMBDAS / folder))
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        sys.path.pop(0)
        for name in _NAMES:
            sys.modules.pop(name, None)
        sys.modules.update(others)
