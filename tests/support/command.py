"""The `headrace` command as a process of its own, to be interrupted."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from headrace.cli.interrupts import BROKEN_PIPE, INTERRUPTED, let_children_be_interrupted

__all__ = ["BROKEN_PIPE", "INTERRUPTED", "begin", "begin_python"]


def begin(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start `headrace` with pipes for what it reads and says. A context manager."""
    return _begin("-m", "headrace.cli.main", *arguments, **options)


def begin_python(program: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start a Python program, which may begin the command in a way of its own."""
    return _begin("-c", program, *arguments, **options)


def _begin(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    environment = options.pop("environment", {})
    # Not by `preexec_fn`, which hangs now and then where the tests' process has other threads.
    let_children_be_interrupted()
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdin=options.pop("stdin", subprocess.PIPE),
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        # By it, a process that is ended by SIGABRT says where its threads are.
        env={**os.environ, "PYTHONFAULTHANDLER": "1", **environment},
        **options,
    )
