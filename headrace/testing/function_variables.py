"""Gives a function that runs in this process its own environment variables and session, which the test does not see.

Gives each execution environment that runs in this process its own Python modules.

Sets the environment variables by which AWS's SDKs find a cloud and its credentials, and restores them.
"""
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import os
import sys
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import boto3
import botocore.session
from botocore.hooks import HierarchicalEmitter

# These always come from the process, also if the function's folder has them: they carry requests to the cloud.
_SHARED = ("boto3", "botocore", "s3transfer", "urllib3", "jmespath", "dateutil", "awslambdaric")


class Modules:
    """The modules of one execution environment; they are in `sys.modules` only while it runs."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = [str(folder) for folder in folders]
        self._names = {name for folder in folders for name in _top_level(folder)} - set(_SHARED)
        self._own: dict[str, ModuleType] = {}

    @contextlib.contextmanager
    def entered(self) -> Generator[None]:
        """Install this environment's modules, and put its folders first on `sys.path`."""
        hidden = self._take(sys.modules) if self._names & sys.modules.keys() else {}
        last = next(reversed(sys.modules))
        sys.modules.update(self._own)
        loaded = len(sys.modules)
        sys.path[:0] = self._folders
        if not self._own:
            for folder in self._folders:
                sys.path_importer_cache[folder] = _finder(folder)
        try:
            yield
        finally:
            if len(sys.modules) == loaded:
                for name in self._own:
                    del sys.modules[name]
            else:
                self._own = self._take(_since(last, loaded - len(self._own)))
            sys.modules.update(hidden)
            for folder in self._folders:
                with contextlib.suppress(ValueError):
                    sys.path.remove(folder)

    def _take(self, among: Iterable[str]) -> dict[str, ModuleType]:
        """Remove from `sys.modules`, and return, the modules with this function's names."""
        own = self._names
        names = [name for name in among if name.partition(".")[0] in own]
        return {name: sys.modules.pop(name) for name in names}


def _since(last: str, loaded: int) -> Iterable[str]:
    """Return the modules loaded since `last` was the last of `loaded` names in `sys.modules`; all names if unsure.

    There are thousands of other modules: a search through all takes as long as a small function runs.
    """
    new = list(itertools.takewhile(lambda name: name != last, reversed(sys.modules)))
    return reversed(new) if len(sys.modules) - len(new) == loaded else list(sys.modules)


class _KeptSource(SourceFileLoader):
    """Loads a module's code; an unchanged file is read once for all environments."""

    def get_code(self, fullname: str) -> Any:
        """See `importlib.abc.InspectLoader`."""
        try:
            status = Path(self.path).stat()
        except OSError:
            return super().get_code(fullname)
        return _code_of(fullname, self.path, status.st_mtime_ns, status.st_size)


# Keyed by path, modification time and size.
@functools.lru_cache(maxsize=1000)
def _code_of(fullname: str, path: str, mtime_ns: int, size_bytes: int) -> Any:
    return SourceFileLoader(fullname, path).get_code(fullname)


def _finder(folder: str) -> FileFinder:
    """Return a finder for a folder's modules, with an empty cache: the folder may have new files."""
    return FileFinder(
        folder,
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (_KeptSource, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )


def _top_level(folder: Path) -> list[str]:
    """Return the names of a folder's modules and packages."""
    if not folder.is_dir():
        return []
    names = [
        path.name.partition(".")[0]
        for path in folder.iterdir()
        if path.suffix in ("", ".py", ".so")
    ]
    return [name for name in names if name.isidentifier()]


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
            self._others = session()
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


# Variables that would send an SDK to a real account or to another cloud than the test's.
_ASTRAY = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_CA_BUNDLE",
)
SECRET = "test"


def harmless() -> dict[str, str | None]:
    """Return environment variables with which no SDK finds a real account; a value of None removes the variable."""
    endpoints = [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL")]
    return {
        **dict.fromkeys((*_ASTRAY, *endpoints)),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def pointing_at(endpoint_url: str, *, account: str, region: str) -> dict[str, str | None]:
    """Return environment variables with which every SDK uses one account of a cloud."""
    return {
        **harmless(),
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": account,
        "AWS_DEFAULT_REGION": region,
        "AWS_REGION": region,
    }


@contextlib.contextmanager
def variables(values: Mapping[str, str | None]) -> Generator[None]:
    """Set variables inside the block, and restore the former values after it; None removes a variable."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def fresh_default_session() -> Generator[None]:
    """Let `boto3.client()` make a new default session inside the block, because a session keeps its credentials.

    It is made when a client first asks, as in a new process: that takes a fifth of a cloud's time.
    """
    set_up = cast("Any", boto3).setup_default_session

    def set_up_fresh(**settings: Any) -> None:
        if settings:
            set_up(**settings)
        else:
            boto3.DEFAULT_SESSION = session()

    boto3.setup_default_session = set_up_fresh
    try:
        with default_session(None):
            yield
    finally:
        boto3.setup_default_session = set_up


@contextlib.contextmanager
def default_session(default: Any) -> Generator[None]:
    """Make a session boto3's default session inside the block."""
    before = boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION = default
    try:
        yield
    finally:
        boto3.DEFAULT_SESSION = before


def session(endpoint_url: str = "", *, kind: Any = boto3.Session, **settings: str) -> Any:
    """Return a new boto3 session that shares AWS's parsed models: to parse them takes most of a client's creation.

    Args:
        endpoint_url: the endpoint of its clients; the default is the environment's.
        kind: the session's class.
        settings: the arguments of `boto3.Session`.
    """
    botocore_session = botocore.session.Session(
        event_hooks=copy.copy(_shared()[0]), include_builtin_handlers=False
    )
    botocore_session.register_component("data_loader", _shared()[1])
    if endpoint_url:
        botocore_session.set_config_variable("endpoint_url", endpoint_url)
    return kind(botocore_session=botocore_session, **settings)


@functools.cache
def _shared() -> tuple[Any, Any]:
    """Return what all sessions have alike: the handlers, and a loader that keeps AWS's models.

    To register the handlers anew takes as long as a cloud.
    """
    handlers = HierarchicalEmitter()
    first = botocore.session.Session(event_hooks=handlers)
    return handlers, first.get_component("data_loader")
