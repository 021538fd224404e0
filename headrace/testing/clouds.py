"""Runs a cloud in the test's own process, without a socket: `cloud()` is a context manager and a decorator.

Serves a cloud of this process on a socket too: for the AWS CLI, other processes and clients without botocore.
"""
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import shutil
import threading
import unittest
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import boto3

from headrace.aws.server.server import bind
from headrace.aws.signatures.access_keys import Credentials
from headrace.cloud import Cloud, server_for
from headrace.core.config import DEFAULT_ACCOUNT_ID, DEFAULT_REGION, Config
from headrace.core.ids import Ids
from headrace.services.lambda_.runtime.environment import SandboxSpec
from headrace.testing import clock as clocks
from headrace.testing import function_variables, in_process
from headrace.testing.denials import collect
from headrace.testing.functions import FunctionRules, InProcessEnvironment
from headrace.testing.in_process import (
    NO_PORT,
    InProcessAccess,
    check_options,
    give_tables,
    keep_tables,
    temporary_folder,
)

F = TypeVar("F")


class LocalCloud(InProcessAccess):
    """A started cloud in this process. Thread-safe.

    Python functions run in this process (see `headrace.testing.functions`), other functions in their own processes.

    Attributes:
        cloud: the cloud itself.
        data_dir: its data directory; `close` removes it unless the caller gave it.
    """

    def __init__(
        self,
        *,
        port: int = NO_PORT,
        account: str = DEFAULT_ACCOUNT_ID,
        region: str = DEFAULT_REGION,
        data_dir: Path | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        """Build and start it.

        Args:
            port: the port in its endpoint's URL.
            account: the default account of sessions.
            region: the default region of sessions.
            data_dir: a data directory that stays; the default is a temporary folder.
            seed: the seed of the ids that it makes.
            options: some options of `headrace up`: durability, strict, state_delay_ms, limits, log_group_events,
                log_group_mib, spark, iam, mqtt, mqtt_port, mqtt_tls_port.

        Raises UnknownOption.
        """
        check_options(account, options)
        self._is_temporary = data_dir is None
        self.data_dir = temporary_folder() if data_dir is None else data_dir
        if self._is_temporary:
            give_tables(self.data_dir)
        self._clock = clocks.MovableClock()
        ids = Ids(seed)
        rules = FunctionRules(self._clock, ids)

        def environments(
            spec: SandboxSpec, credentials: Credentials
        ) -> InProcessEnvironment | None:
            if not spec.runtime.startswith("python"):
                return None
            return InProcessEnvironment(spec, credentials, rules)

        config = Config(
            data_dir=self.data_dir, port=port, account_id=account, region=region, **options
        )
        self.cloud = Cloud(
            config,
            clock=self._clock,
            ids=ids,
            environments=environments,
            warms_up=False,
            is_temporary=self._is_temporary,
        )
        self._clock.watch(self.cloud.supervisor)
        if self._is_temporary:
            keep_tables(self.data_dir, self.cloud.database)
        self.cloud.start()
        self.cloud.start_devices()
        super().__init__(config.endpoint_url, account=account, region=region)

    @property
    def route(self) -> in_process.Route:
        """The route by which requests of this process reach this cloud."""
        assert self.endpoint_url is not None
        return in_process.Route(self.handle, self.endpoint_url.partition("://")[2])

    def session(self, *, account: str | None = None, region: str | None = None) -> boto3.Session:
        """See `CloudAccess.session`."""
        session = super().session(account=account, region=region)
        in_process.bind(session, self.route)
        return session

    def advance(
        self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Move the cloud's time forward: retention, buffering intervals, queue delays and windows pass at once."""
        self._clock.advance(
            clocks.seconds(seconds=seconds, minutes=minutes, hours=hours, days=days)
        )

    def close(self) -> None:
        """Stop the cloud, and remove its temporary folder."""
        collect(self.cloud.decisions)
        self.cloud.stop()
        if self._is_temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Entering:
    """What `cloud()` returns: a context manager that also decorates functions, coroutine functions and test classes."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._blocks: list[contextlib.AbstractContextManager[LocalCloud]] = []

    def __enter__(self) -> LocalCloud:
        block = _enter_cloud(self._options)
        self._blocks.append(block)
        return block.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._blocks.pop().__exit__(*error)

    def __call__(self, decorated: F) -> F:
        """Enter a new cloud for each call of a function, or for each test of a class."""
        target: Any = decorated
        if inspect.isclass(target):
            return cast("F", _decorate_class(target, self._options))
        if inspect.iscoroutinefunction(target):

            @functools.wraps(target)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with _enter_cloud(self._options):
                    return await target(*args, **kwargs)

            return cast("F", run_async)

        @functools.wraps(target)
        def run(*args: Any, **kwargs: Any) -> Any:
            with _enter_cloud(self._options):
                return target(*args, **kwargs)

        return cast("F", run)


def cloud(**options: Any) -> _Entering:
    """Run a cloud in this process, for a `with` block or for each call of the decorated function.

    Inside, the cloud answers every request that botocore sends to AWS, also from clients that were made before.
    The environment variables of AWS's SDKs are set, and restored at the end. The cloud has no socket: the AWS CLI,
    presigned URLs and SubscribeToShard need the fixture `headrace_cloud`.

    Args:
        options: the arguments of `LocalCloud`.
    """
    return _Entering(options)


@contextlib.contextmanager
def _enter_cloud(options: dict[str, Any]) -> Generator[LocalCloud]:
    with LocalCloud(**options) as local_cloud, send_requests_to(local_cloud):
        yield local_cloud


@contextlib.contextmanager
def send_requests_to(local_cloud: LocalCloud) -> Generator[None]:
    """Send this process's AWS requests to a cloud inside the block."""
    assert local_cloud.endpoint_url is not None
    route = local_cloud.route
    variables_given = function_variables.pointing_at(
        local_cloud.endpoint_url, account=local_cloud.account, region=local_cloud.region
    )
    with function_variables.variables(variables_given), function_variables.fresh_default_session():
        in_process.enter(route)
        try:
            yield
        finally:
            in_process.leave(route)


def _decorate_class(decorated: type[Any], options: dict[str, Any]) -> type[Any]:
    """Give each test of a class a new cloud, before the class's own set-up runs."""
    if issubclass(decorated, unittest.TestCase):
        set_up: Callable[[Any], None] = decorated.setUp

        def enter_and_set_up(self: Any) -> None:
            block = _enter_cloud(options)
            block.__enter__()
            self.addCleanup(block.__exit__, None, None, None)
            set_up(self)

        decorated.setUp = enter_and_set_up  # pyright: ignore[reportAttributeAccessIssue]
        return decorated
    for name, method in list(vars(decorated).items()):
        if name.startswith("test") and inspect.isfunction(method):
            setattr(decorated, name, _Entering(options)(method))
    return decorated


_STARTS_WITHIN_S = 30.0


class ServedCloud(LocalCloud):
    """A `LocalCloud` on a free port of 127.0.0.1."""

    def __init__(self, *, account: str = DEFAULT_ACCOUNT_ID, **options: Any) -> None:
        """Start the cloud and listen. Raises UnknownOption, OSError."""
        check_options(account, {k: v for k, v in options.items() if k not in _OF_THE_CLOUD})
        bound = bind("127.0.0.1", 0)
        super().__init__(port=int(bound.getsockname()[1]), account=account, **options)
        self._server = server_for(self.cloud)
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        listening = threading.Event()

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self._server.start(bound)
            listening.set()
            await self._stop.wait()
            await self._server.stop()

        self._thread = threading.Thread(
            target=asyncio.run, args=(serve(),), name="headrace", daemon=True
        )
        self._thread.start()
        if not listening.wait(_STARTS_WITHIN_S):
            raise OSError(f"The cloud did not listen within {_STARTS_WITHIN_S:.0f} s.")

    def close(self) -> None:
        """See `LocalCloud.close`."""
        self.cloud.prepare_stop()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_STARTS_WITHIN_S)
        super().close()


_OF_THE_CLOUD = ("region", "data_dir", "seed")
