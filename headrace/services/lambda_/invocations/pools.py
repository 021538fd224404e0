"""The warm processes of all functions: keeps a pool for each version, and starts and ends the processes.

Enforces the concurrency limits: the account's limit, and a function's reserved and provisioned concurrency.

Source: https://docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html (documented).
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from headrace.aws.calls.http import NeedsThread
from headrace.aws.signatures.access_keys import Credentials, RoleSession, RoleSessions, role_name
from headrace.core.arn import partition_of
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import FunctionNotFound, FunctionThrottled
from headrace.services.lambda_.errors import (
    ACCOUNT_CONCURRENCY,
    CREDENTIALS_SECONDS,
    SANDBOX_IDLE_SECONDS,
    UNRESERVED_CONCURRENCY_LEFT,
    Throttled,
)
from headrace.services.lambda_.invocations.sandbox_pool import ExecutionEnvironment, SandboxPool
from headrace.services.lambda_.layers import Bytecode
from headrace.services.lambda_.names import FunctionRef
from headrace.services.lambda_.packages import CodeStore
from headrace.services.lambda_.runtime.channel import Wait
from headrace.services.lambda_.runtime.environment import SandboxSpec, trust_the_machine
from headrace.services.lambda_.runtime.function_process import Sandbox
from headrace.services.lambda_.runtime.messages import Invocation
from headrace.services.lambda_.runtime.namespaces import Namespaces
from headrace.services.lambda_.runtime.platform_log import AnswerSink, Outcome
from headrace.services.lambda_.runtime.process import NotStarted, ReaperClient
from headrace.services.lambda_.runtime.steps import Steps
from headrace.services.lambda_.state import Function, FunctionStore, Target, Version

_EXPIRE_EVERY_S = 30.0
# Makes a test's execution environment for a function; returns None if the function must run in a process.
MakeEnvironment = Callable[[SandboxSpec, Credentials], ExecutionEnvironment | None]
INIT_FAILED = "FUNCTION_ERROR_INIT_FAILURE"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A pool, and the revision and the code's fingerprint that it was made for. When these change, the pool drains."""

    made_from: tuple[str, str]
    pool: SandboxPool


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The state of a provisioned concurrency: AWS's status, and the reason if it is FAILED."""

    count: int
    status: str
    reason: str = ""


class Pools:
    """Runs invocations in processes; as a `Worker`, ends idle processes and starts provisioned ones. Thread-safe."""

    name = "lambda-pools"

    def __init__(
        self,
        *,
        data_dir: Path,
        clock: Clock,
        ids: Ids,
        functions: FunctionStore,
        code: CodeStore,
        endpoint_url: Callable[[], str],
        trust_file: Callable[[], Path | None] = trust_the_machine,
        sessions: RoleSessions,
        folders: Sequence[Path] = (),
        environments: MakeEnvironment | None = None,
    ) -> None:
        """Take the parts. `environments` is for tests; without it each function runs in processes.

        `trust_file` returns the authorities that functions trust, this cloud's certificate among them.
        """
        self._environments = environments
        self._sessions = sessions
        self._root = data_dir / "lambda" / "tmp"
        self._clock = clock
        self._ids = ids
        self._functions = functions
        self.concurrency = Concurrency(functions)
        self._code = code
        self._endpoint_url = endpoint_url
        self._reaper = ReaperClient()
        self._trust_file = trust_file
        self._walls = Namespaces(data_dir, folders, trust_file)
        self.bytecode = Bytecode()
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], _Entry] = {}
        # Drained pools, whose processes may still run invocations.
        self._retired: list[SandboxPool] = []
        self._provisioned: dict[tuple[str, str], Provisioned] = {}
        self._stopped = False

    def invoke(
        self,
        target: Target,
        invocation: Invocation,
        *,
        sink: AnswerSink | None = None,
        on_start: Callable[[str], None] | None = None,
    ) -> Run:
        """Run an invocation in a process of the target's version; see `Dispatcher.invoke`. Raises FunctionThrottled."""
        slot = self.concurrency.take(target.function, target.qualifier, target.version)
        try:
            if on_start is not None:
                on_start(target.number)
            pool = self.pool(target.function, target.version)
            environment = pool.acquire()
            try:
                outcome = environment.invoke(invocation, sink)
            finally:
                pool.release(environment)
        finally:
            self.concurrency.give_back(slot)
        return Run(outcome, environment, slot)

    def steps(self, target: Target, invocation: Invocation) -> Steps[Run]:
        """Run an invocation as `invoke` does, in steps, in a process that is warm and idle. Raises NeedsThread."""
        slot = self.concurrency.take(target.function, target.qualifier, target.version)
        try:
            outcome, sandbox = yield from self._lend(target, invocation)
        finally:
            self.concurrency.give_back(slot)
        return Run(outcome, sandbox, slot)

    def _lend(self, target: Target, invocation: Invocation) -> Steps[tuple[Outcome, Sandbox]]:
        version = target.version
        entry = self._entries.get((target.function.key, version.number))
        if entry is None or entry.made_from != (str(version.config["RevisionId"]), ""):
            # There is no pool yet, or whether its files have changed is to be seen.
            raise NeedsThread
        pool = entry.pool
        sandbox = pool.take_idle()
        try:
            if not isinstance(sandbox, Sandbox) or not sandbox.is_warm:
                raise NeedsThread
            outcome = yield from sandbox.steps(invocation)
            if pool.is_draining:
                yield Wait(sandbox.channel, 0.0, blocks=True)
            return outcome, sandbox
        finally:
            if sandbox is not None:
                pool.release(sandbox)

    def pool(self, function: Function, version: Version) -> SandboxPool:
        """Return the version's pool. A pool that was made for older code or configuration is drained and replaced.

        Raises Throttled while stopping.
        """
        key = (function.key, version.number)
        made_from = (
            str(version.config["RevisionId"]),
            self._code.fingerprint(version.digest, *version.layers),
        )
        entry = self._entries.get(key)
        if entry is not None and entry.made_from == made_from:
            return entry.pool
        with self._lock:
            if self._stopped:
                raise Throttled(function.ref.arn, ACCOUNT_REACHED)
            entry = self._entries.get(key)
            if entry is None or entry.made_from != made_from:
                if entry is not None:
                    entry.pool.drain()
                    self._retired.append(entry.pool)
                spec = self._build_spec(function, version)
                self._compile(spec, made_from[1])
                new_pool = self._build_maker(spec)
                opt = [] if spec.opt_dir is None else [spec.opt_dir]
                folders = frozenset({spec.code_dir, *spec.layer_dirs, *opt})
                pool = SandboxPool(
                    new_pool, most=function.most_processes, clock=self._clock, folders=folders
                )
                entry = _Entry(made_from, pool)
                self._entries[key] = entry
            return entry.pool

    def _compile(self, spec: SandboxSpec, fingerprint: str) -> None:
        """Schedule the compilation of a Python function if its processes cannot write the bytecode themselves."""
        if self._environments is not None:
            return
        if spec.runtime.startswith("python") and not self._walls.are_missing:
            folders = [spec.code_dir, *([] if spec.opt_dir is None else [spec.opt_dir])]
            self.bytecode.want(folders, fingerprint)

    def _build_maker(self, spec: SandboxSpec) -> Callable[[], ExecutionEnvironment]:
        def make() -> ExecutionEnvironment:
            credentials = self._issue_credentials(spec)
            if self._environments is not None:
                environment = self._environments(spec, credentials)
                if environment is not None:
                    return environment
            return Sandbox(
                spec,
                root=self._root,
                clock=self._clock,
                ids=self._ids,
                reaper=self._reaper,
                walls=self._walls,
                credentials=credentials,
            )

        return make

    def _issue_credentials(self, spec: SandboxSpec) -> Credentials:
        """Return the credentials of a process: a session of the function's role, named after the function."""
        now_ms = self._clock.now_ms()
        session = RoleSession(
            spec.account,
            role_name(spec.role),
            spec.name,
            now_ms + CREDENTIALS_SECONDS * 1000,
            issued_ms=now_ms,
            partition=partition_of(spec.region),
        )
        return self._sessions.issue(session)

    def _build_spec(self, function: Function, version: Version) -> SandboxSpec:
        config = version.config
        variables: dict[str, str] = config.get("Environment", {}).get("Variables", {})
        logging_config: dict[str, Any] = config["LoggingConfig"]
        return SandboxSpec(
            account=function.account,
            region=function.region,
            name=function.name,
            version=version.number,
            runtime=str(config["Runtime"]),
            handler=str(config.get("Handler", "")),
            code_dir=self._code.directory(version.digest),
            layer_dirs=tuple(self._code.directory(digest) for digest in version.layers),
            environment=tuple(variables.items()),
            timeout_s=float(config["Timeout"]),
            memory_mib=int(config["MemorySize"]),
            log_group=str(logging_config["LogGroup"]),
            log_format=str(logging_config["LogFormat"]),
            endpoint_url=self._endpoint_url(),
            trust_file=self._trust_file(),
            role=str(config.get("Role", "")),
            application_log_level=str(logging_config.get("ApplicationLogLevel", "INFO")),
            system_log_level=str(logging_config.get("SystemLogLevel", "INFO")),
            opt_dir=self._code.merge_packages(version.layers),
            storage_mib=int(config["EphemeralStorage"]["Size"]),
        )

    def folders_in_use(self) -> set[Path]:
        """Return the folders of code and layers that present and future processes of the pools use."""
        with self._lock:
            self._retired = [pool for pool in self._retired if pool.is_busy]
            pools = [*(entry.pool for entry in self._entries.values()), *self._retired]
        return {folder for pool in pools for folder in pool.folders}

    @property
    def lack_walls(self) -> bool:
        """Whether this machine is known to permit no walls around functions."""
        return self._walls.are_missing

    def drain(self, ref: FunctionRef, number: str | None = None) -> None:
        """Retire the processes of one version or of all versions: each ends after its current invocation."""
        with self._lock:
            keys = [key for key in self._entries if key[0] == ref.key and number in (None, key[1])]
            entries = [self._entries.pop(key) for key in keys]
            self._retired += [entry.pool for entry in entries]
            if number is None:
                for key in [key for key in self._provisioned if key[0] == ref.key]:
                    del self._provisioned[key]
        for entry in entries:
            entry.pool.drain()

    # --- provisioned concurrency --------------------------------------------------------------

    def find_provisioned(self, function: Function, qualifier: str) -> Provisioned:
        """Return the state of the provisioned concurrency of a version or alias."""
        executions = function.provisioned[qualifier]
        state = self._provisioned.get((function.key, qualifier))
        if state is None or (state.count != executions and state.status != "FAILED"):
            return Provisioned(0, "IN_PROGRESS")
        return state

    def forget_provisioned(self, ref: FunctionRef, qualifier: str) -> None:
        """Delete the state of a provisioned concurrency that was changed or removed."""
        self._provisioned.pop((ref.key, qualifier), None)

    def _provision(self, function: Function) -> set[tuple[str, str]]:
        """Start the missing provisioned processes of a function. Return the keys of its pools that have any."""
        key = function.key
        kept: set[tuple[str, str]] = set()
        for version, qualifiers in _group_by_version(function):
            kept.add((key, version.number))
            states = [self._provisioned.get((key, name)) for name in qualifiers]
            if any(state is not None and state.status == "FAILED" for state in states):
                continue
            try:
                pool = self.pool(function, version)
            except FunctionThrottled:
                continue
            counts = {name: function.provisioned.get(name, 0) for name in qualifiers}
            spec = replace(
                self._build_spec(function, version), initialization_type="provisioned-concurrency"
            )
            broken = pool.provision(sum(counts.values()), self._build_maker(spec))
            for name, count in counts.items():
                self._provisioned[key, name] = (
                    Provisioned(count, "READY")
                    if broken is None
                    else Provisioned(0, "FAILED", INIT_FAILED)
                )
        if self._functions.find(function.ref) is not function:
            # The function was deleted while its processes started, so the deletion has not drained them.
            self.drain(function.ref)
        return kept

    # --- the worker ---------------------------------------------------------------------------

    def step(self) -> float:
        """Start missing provisioned processes, and close processes that have been idle for long."""
        processes = self._environments is None
        if processes and not self._stopped and (self._functions.any() or not self._walls.are_known):
            # Find out about walls before the first invocation, so that headrace logs at once if there are none.
            with contextlib.suppress(NotStarted):
                self._walls.view()
            if not self._functions.any():
                # The launcher takes 12 MB.
                self._walls.rest()
        kept: set[tuple[str, str]] = set()
        for function in self._functions.list_provisioned():
            if not self._stopped:
                kept |= self._provision(function)
        with self._lock:
            entries = dict(self._entries)
        for key, entry in entries.items():
            if key not in kept:
                entry.pool.unprovision()
            entry.pool.expire(SANDBOX_IDLE_SECONDS)
        return _EXPIRE_EVERY_S

    def stop(self) -> None:
        """Kill every process; running invocations fail."""
        with self._lock:
            self._stopped = True
            entries, self._entries = list(self._entries.values()), {}
        for entry in entries:
            entry.pool.kill()
        self._reaper.close()
        self._walls.close()
        self.bytecode.stop()


def _group_by_version(function: Function) -> list[tuple[Version, list[str]]]:
    """Return the versions with provisioned concurrency, each with the version numbers or aliases that configure it."""
    groups: dict[str, tuple[Version, list[str]]] = {}
    for qualifier in list(function.provisioned):
        with contextlib.suppress(FunctionNotFound):
            version = function.resolve(qualifier)
            groups.setdefault(version.number, (version, []))[1].append(qualifier)
    return list(groups.values())


RESERVED_REACHED = "ReservedFunctionConcurrentInvocationLimitExceeded"
ACCOUNT_REACHED = "ConcurrentInvocationLimitExceeded"


class Slot(NamedTuple):
    """An invocation that counts towards the limits.

    Attributes:
        running: how many invocations of the function ran when this one started, itself included.
        provisioned: True if it uses provisioned concurrency, False if it spills over, None if there is none.
        key, account: the function, and its account and region.
        name: the version or alias whose provisioned concurrency it uses; None if it uses none.
        is_pooled: it uses the account's unreserved concurrency.
    """

    running: int
    provisioned: bool | None
    key: str
    account: tuple[str, str]
    name: str | None
    is_pooled: bool


class Run(NamedTuple):
    """A finished invocation: its outcome, the process that ran it, already released, and the slot that it had."""

    outcome: Outcome
    environment: ExecutionEnvironment
    slot: Slot


class Concurrency:
    """Counts running invocations, and refuses an invocation that would exceed a limit. Thread-safe."""

    def __init__(
        self, functions: FunctionStore, *, account_limit: int = ACCOUNT_CONCURRENCY
    ) -> None:
        self._functions = functions
        self._account_limit = account_limit
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._on_provisioned: Counter[tuple[str, str]] = Counter()
        self._unreserved: Counter[tuple[str, str]] = Counter()

    def take(self, function: Function, qualifier: str | None, version: Version) -> Slot:
        """Count an invocation of the function until `give_back`. Raises Throttled."""
        key, account = function.key, (function.account, function.region)
        name = None
        if function.provisioned:
            name = _find_provisioned_name(function, qualifier, version)
        reserved = function.reserved_concurrency
        with self._lock:
            provisioned = name is not None and (
                self._on_provisioned[key, name] < function.provisioned.get(name, 0)
            )
            if reserved is not None and (
                self._running[key] >= reserved
                or (not provisioned and self._on_demand(function) >= _on_demand_limit(function))
            ):
                raise Throttled(function.ref.arn, RESERVED_REACHED)
            pooled = reserved is None and not provisioned
            if pooled and self._unreserved[account] >= self._find_pool(account):
                raise Throttled(function.ref.arn, ACCOUNT_REACHED)
            self._running[key] += 1
            self._unreserved[account] += pooled
            if provisioned and name is not None:
                self._on_provisioned[key, name] += 1
            running = self._running[key]
        used = name if provisioned else None
        return Slot(running, None if name is None else provisioned, key, account, used, pooled)

    def give_back(self, slot: Slot) -> None:
        """Lower the counts that `take` has raised, even if the function's configuration has changed meanwhile."""
        with self._lock:
            self._give_back(self._running, slot.key)
            self._unreserved[slot.account] -= slot.is_pooled
            if slot.name is not None:
                self._give_back(self._on_provisioned, (slot.key, slot.name))

    def _on_demand(self, function: Function) -> int:
        """Return how many of the function's invocations run beyond its provisioned concurrency."""
        counts = self._on_provisioned
        return self._running[function.key] - sum(
            counts[function.key, name] for name in function.provisioned
        )

    @staticmethod
    def _give_back(counts: Counter[Any], key: Any) -> None:
        counts[key] -= 1
        if not counts[key]:
            # Keep no zero counts, since their functions may have been deleted.
            del counts[key]

    def _find_pool(self, account: tuple[str, str]) -> int:
        # AWS always leaves this much unreserved. Below it, there is no need to add up all functions' reservations.
        least = min(self._account_limit, UNRESERVED_CONCURRENCY_LEFT)
        if self._unreserved[account] < least:
            return least
        return count_unreserved(self._functions.all(*account), self._account_limit)


def _on_demand_limit(function: Function) -> int:
    """Return the reserved concurrency that is not provisioned. If it is 0, only provisioned versions can run."""
    return (function.reserved_concurrency or 0) - sum(function.provisioned.values())


def count_unreserved(functions: list[Function], account_limit: int = ACCOUNT_CONCURRENCY) -> int:
    """Return the unreserved concurrency of an account: what reserved and provisioned concurrency leave of the limit."""
    taken = 0
    for function in functions:
        reserved = function.reserved_concurrency
        taken += sum(function.provisioned.values()) if reserved is None else reserved
    return account_limit - taken


def _find_provisioned_name(
    function: Function, qualifier: str | None, version: Version
) -> str | None:
    """Return the version or alias whose provisioned concurrency an invocation may use, or None."""
    return next((n for n in (qualifier, version.number) if n in function.provisioned), None)
