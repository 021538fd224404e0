"""The command that runs a launcher: a module's `main` in a Python of its own, without site-packages."""

from __future__ import annotations

import sys
from pathlib import Path

_RUN = (
    "import importlib, sys; sys.path.append(sys.argv[1]);"
    " sys.exit(importlib.import_module(sys.argv[2]).main())"
)
_ROOT = str(Path(__file__).resolve().parents[2])


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command. The module imports only the standard library and `headrace.walls`."""
    return [sys.executable, "-I", "-S", "-c", _RUN, _ROOT, module, *arguments]
