"""Gives a function that runs in this process its own environment variables and session, which the test does not see."""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Generator, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import boto3

from headrace.testing.environment import default_session


@dataclass(frozen=True, slots=True)
class _Running:
    """The function that runs now.

    Attributes:
        variables: its environment variables, encoded.
        thread: runs it.
        others: threads that are not the function's, unless one of them is `thread`.
    """

    variables: dict[Any, Any]
    thread: threading.Thread
    others: frozenset[threading.Thread]

    def is_here(self) -> bool:
        """Return whether the calling thread is the function's."""
        thread = threading.current_thread()
        return thread is self.thread or thread not in self.others


class _VariablesByThread(MutableMapping[Any, Any]):
    """The encoded variables behind `os.environ`: a running function's for its threads, the process's for all others.

    Without it, a variable that a function's end removes could vanish while another thread iterates over `os.environ`,
    as botocore does for each client, and that thread would get a KeyError. Thread-safe, as a dict is.
    """

    def __init__(self, process: dict[Any, Any]) -> None:
        self.process = process
        self.running: _Running | None = None

    def _of_this_thread(self) -> dict[Any, Any]:
        running = self.running
        return running.variables if running is not None and running.is_here() else self.process

    def __getitem__(self, name: Any) -> Any:
        return self._of_this_thread()[name]

    def __setitem__(self, name: Any, value: Any) -> None:
        self._of_this_thread()[name] = value

    def __delitem__(self, name: Any) -> None:
        del self._of_this_thread()[name]

    def __iter__(self) -> Iterator[Any]:
        # A copy: the caller may change variables while it iterates.
        return iter(list(self._of_this_thread()))

    def __len__(self) -> int:
        return len(self._of_this_thread())


_installing = threading.Lock()


def _install() -> _VariablesByThread:
    """Return what is behind `os.environ`; the first call puts it there."""
    environ: Any = os.environ
    with _installing:
        if not isinstance(environ._data, _VariablesByThread):  # noqa: SLF001 - the one place that every access passes
            by_thread = _VariablesByThread(environ._data)  # noqa: SLF001
            environb: Any = os.environb
            environ._data = environb._data = by_thread  # noqa: SLF001
        return environ._data  # noqa: SLF001


class FunctionVariables:
    """The environment variables of one execution environment, on top of the process's; None removes a variable.

    What the function sets is there again at its next invocation, as in a process of its own. Programs that it starts
    inherit its variables. Threads that run when this object is made never see them, except the one that calls
    `entered`. One thread at a time enters; a function may enter another's variables inside its own.
    """

    def __init__(self, values: Mapping[str, str | None]) -> None:
        environ: Any = os.environ
        self._by_thread = _install()
        self._others = frozenset(threading.enumerate())
        self._changes: dict[Any, Any] = {
            environ.encodekey(name): None if value is None else environ.encodevalue(value)
            for name, value in values.items()
        }

    @contextlib.contextmanager
    def entered(self) -> Generator[None]:
        """Give this thread, and threads that it starts, the function's variables inside the block."""
        by_thread, before = self._by_thread, self._by_thread.running
        inherited = by_thread.process if before is None else before.variables
        environment_now = {**by_thread.process, **self._changes}
        for name, value in self._changes.items():
            if value is None:
                del environment_now[name]
        own = dict(environment_now)
        _change_for_programs(self._changes, inherited, own)
        by_thread.running = _Running(own, threading.current_thread(), self._others)
        try:
            yield
        finally:
            by_thread.running = before
            if own != environment_now:
                for name in own.keys() | environment_now.keys():
                    if own.get(name) != environment_now.get(name):
                        self._changes[name] = own.get(name)
            inherited = by_thread.process if before is None else before.variables
            _change_for_programs(self._changes, own, inherited)


def default_session_of(own: Any) -> contextlib.AbstractContextManager[None]:
    """Make a session boto3's default session for the running function's threads, inside the block."""
    return default_session(_SessionByThread(own, boto3.DEFAULT_SESSION))


class _SessionByThread:
    """boto3's default session while a function runs: the function's own for its threads, the test's for all others.

    A session keeps the credentials that it finds first: a function and the test that shared one would share them.
    """

    def __init__(self, own: Any, others: Any) -> None:
        self._by_thread = _install()
        self._own = own
        self._others = others

    def __getattr__(self, name: str) -> Any:
        running = self._by_thread.running
        if running is not None and running.is_here():
            return getattr(self._own, name)
        if self._others is None:
            self._others = boto3.Session()
        return getattr(self._others, name)


def _change_for_programs(
    names: Mapping[Any, Any], old: dict[Any, Any], new: dict[Any, Any]
) -> None:
    """Change the variables that new programs inherit: a dict of `os.environ` alone does not reach them."""
    for name in names:
        value = new.get(name)
        if value == old.get(name):
            continue
        if value is None:
            os.unsetenv(name)
        else:
            os.putenv(name, value)
