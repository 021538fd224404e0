"""A simulated cloud: one thread, virtual time, and a seed that decides the order of work, faults and crashes.

The probabilities of faults in a simulation.
"""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import math
import random
import re
import shutil
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import boto3

from headrace.aws.calls.http import DROPPED, HttpRequest, HttpResponse
from headrace.aws.signatures.access_keys import Credentials
from headrace.cloud import Cloud
from headrace.core.config import DEFAULT_ACCOUNT_ID, DEFAULT_REGION, Config
from headrace.core.ids import Ids
from headrace.services.lambda_.mappings.mappings import MOST_COUNTED
from headrace.services.lambda_.runtime.environment import SandboxSpec
from headrace.testing import clock as clocks
from headrace.testing import function_variables, in_process
from headrace.testing.functions import FunctionDied, FunctionRules, InProcessEnvironment
from headrace.testing.in_process import (
    NO_PORT,
    InProcessAccess,
    check_options,
    temporary_folder,
)
from headrace.testing.simulated.clients import get_session
from headrace.testing.simulated.disk import Crashed, Disk
from headrace.testing.simulated.workers import US, SeededWorkers, VirtualClock
from headrace.testing.waiting import (
    CHANNELS,
    DELIVERIES,
    MAPPINGS,
    channels_waiting,
    deliveries_waiting,
    mappings_waiting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """The probability of each fault, for each occasion; with all at 0 nothing goes wrong.

    Attributes:
        lost_request: the connection breaks before a service has done a request.
        lost_answer: the connection breaks after a service has done a request.
        throttled: Kinesis throttles a request.
        partial: one record of a PutRecords call fails.
        function_dies: a function dies before its work; drawn again for after its work, before its answer.
        crash_every: the average number of disk writes before the cloud dies; 0 for never.
    """

    lost_request: float = 0.0
    lost_answer: float = 0.0
    throttled: float = 0.0
    partial: float = 0.0
    function_dies: float = 0.0
    crash_every: int = 0


CALM = Chances()
ROUGH = Chances(
    lost_request=0.01,
    lost_answer=0.02,
    throttled=0.02,
    partial=0.01,
    function_dies=0.02,
    crash_every=250,
)


# Copies a small folder again and again, but reads it only once.

# Folders, then files, by their paths below the folder.
Contents = tuple[tuple[str, ...], tuple[tuple[str, bytes], ...]]


def copy(folder: Path, target: Path) -> None:
    """Copy the contents of a folder that nobody writes to into an existing folder. Raises OSError."""
    folders, files = _contents(folder, folder.stat().st_mtime_ns)
    for name in folders:
        Path(target, name).mkdir()
    for name, data in files:
        with (target / name).open("xb", buffering=0) as file:
            file.write(data)


@functools.lru_cache(maxsize=32)
def _contents(folder: Path, mtime_ns: int) -> Contents:
    """Return a folder's contents as of its last change. They stay in memory: such a folder holds about a megabyte."""
    below = sorted(folder.rglob("*"))
    return (
        tuple(str(path.relative_to(folder)) for path in below if path.is_dir()),
        tuple(
            (str(path.relative_to(folder)), path.read_bytes()) for path in below if path.is_file()
        ),
    )


T = TypeVar("T")
# Buffers wait for 900 s at most, retries of asynchronous events for minutes; a cloud busy for longer never gets quiet.
_QUIET_WITHIN_S = 6 * 3600
# A function's folder: this file names the folder's path, which differs between machines.
_WHERE = re.compile(rb'"CodeSha256": ?"[^"]*"|file://[^"]*')
# A file that `save_to` writes: microseconds since the simulation began.
_TIME = "simulated-time"
_NOT_HERE = ("emr", "emr-serverless")


class NotSimulated(NotImplementedError):
    """A simulation cannot do this; the text is one sentence."""


class NotQuiet(AssertionError):
    """Records have waited for hours without progress."""


class SimulatedCloud(InProcessAccess):
    """A cloud that works only inside calls of the test. For one thread.

    Attributes:
        seed: everything follows from it.
        chances: the current probabilities of faults.
        history: a line for each event so far.
        crashes: how often the cloud has died.
        data_dir: its data directory.
    """

    def __init__(
        self,
        seed: int,
        *,
        chances: Chances = CALM,
        start_from: Path | None = None,
        account: str = DEFAULT_ACCOUNT_ID,
        region: str = DEFAULT_REGION,
        **options: Any,
    ) -> None:
        """See `simulation`."""
        check_options(account, options)
        super().__init__(f"http://127.0.0.1:{NO_PORT}", account=account, region=region)
        self.seed = seed
        self.chances = chances
        self.history: list[str] = []
        self.crashes = 0
        self.data_dir = temporary_folder()
        self.clock = VirtualClock()
        if start_from is not None:
            copy(start_from, self.data_dir)
            self.clock.now_us = int((self.data_dir / _TIME).read_text())
        self.disk = Disk()
        # One generator for each purpose, so that draws of one do not change the draws of another.
        self._order, self._luck, self._ids = (
            random.Random(f"{seed}/{what}") for what in ("order", "luck", "ids")
        )
        # Its functions have the account's own credentials, so a permission report would only cost time.
        self._options: dict[str, Any] = {"iam": "off", **options}
        self._in_function = 0
        # The records that wait are not counted where one is enough.
        self._asks_whether = False
        looks = [mappings_waiting, deliveries_waiting, channels_waiting, _events_waiting]
        self._looks_for_waiting: list[Callable[[SimulatedCloud], list[str]]] = [*looks]
        # Called with the data directory: when a cloud has just died, and as soon as the next one is up.
        self.when_dead: list[Callable[[Path], None]] = []
        self.when_up: list[Callable[[], None]] = []
        self.workers: SeededWorkers
        self.cloud: Cloud
        self.is_closed = False

    # --- life ---------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start a cloud on the data that the last one has left, again and again until one is up."""
        while True:
            try:
                self._boot()
            except Crashed:
                self._release_resources()
                continue
            return

    def _boot(self) -> None:
        # Fast ids: here nobody tries to guess them.
        ids = Ids(self._ids.getrandbits(64))
        self.workers = SeededWorkers(self.clock, self._order, self.tell)
        rules = FunctionRules(
            clock=self.clock,
            ids=ids,
            elapsed_s=self.clock.monotonic_s,
            session=lambda: get_session(self.account, self.region),
            around=self._around_function,
        )

        def environments(spec: SandboxSpec, credentials: Credentials) -> InProcessEnvironment:
            if not spec.runtime.startswith("python"):
                raise NotSimulated(
                    f"A simulation runs functions in Python, and {spec.name} is {spec.runtime}."
                )
            # A role's session credentials are random bytes, and would differ in each run.
            own = Credentials(spec.account, function_variables.SECRET, "", credentials.expires_ms)
            return InProcessEnvironment(spec, own, rules)

        self._choose_death()
        self.disk.is_counting = True
        self.cloud = Cloud(
            Config(
                data_dir=self.data_dir,
                port=NO_PORT,
                account_id=self.account,
                region=self.region,
                **self._options,
            ),
            clock=self.clock,
            ids=ids,
            supervisor=self.workers,
            environments=environments,
            warms_up=False,
            is_temporary=True,
        )
        # Only a person changes a function's files, and no person acts in the virtual time between two crashes.
        self.cloud.lambda_.code.look_every_s = math.inf
        self.cloud.start()
        self._add_faults()
        self.tell("start", f"boot {self.crashes}")
        self._look(*self.when_up)

    @contextlib.contextmanager
    def undisturbed(self) -> Generator[None]:
        """Suspend all faults inside the block: for deployments, and for checks at the end."""
        chances, self.chances = self.chances, CALM
        self.disk.dies_at = None
        self.cloud.gateway.faults.clear()
        try:
            yield
        finally:
            self.chances = chances
            self._choose_death()
            self._add_faults()

    def _choose_death(self) -> None:
        every = self.chances.crash_every
        if every:
            self.disk.dies_at = self.disk.calls + self._luck.randint(1, 2 * every)

    def _add_faults(self) -> None:
        chances, add = self.chances, self.cloud.gateway.faults.add
        for probability, rule in (
            (chances.throttled, {"fault": "throttle"}),
            (chances.partial, {"fault": "partial"}),
            (chances.lost_request, {"fault": "drop", "when": "before"}),
            (chances.lost_answer, {"fault": "drop", "when": "after"}),
        ):
            seed = self._luck.getrandbits(32)
            if probability:
                add({**rule, "service": "kinesis", "probability": probability, "seed": seed})

    def _release_resources(self) -> None:
        """Release everything that a dead cloud held, as the kernel does, and call the observers."""
        self.crashes += 1
        self.tell("crash", f"after {self.disk.calls} calls")
        self.workers.is_dead = True
        self.disk.drop()
        if self.crashes % 50 == 0:
            # A dead cloud is a reference cycle with open files in it.
            gc.collect()
        self._look(*(functools.partial(look, self.data_dir) for look in self.when_dead))

    def _look(self, *looks: Callable[[], None]) -> None:
        """Call a function that only reads: it meets no faults."""
        counting, self.disk.is_counting = self.disk.is_counting, False
        try:
            for look in looks:
                look()
        finally:
            self.disk.is_counting = counting

    def save_to(self, folder: Path) -> None:
        """Copy the data directory to a new folder, from which other simulations can start."""
        counting, self.disk.is_counting = self.disk.is_counting, False
        try:
            self.cloud.database.query("PRAGMA wal_checkpoint(TRUNCATE)")
            shutil.copytree(self.data_dir, folder)
            (folder / _TIME).write_text(str(self.clock.now_us))
        finally:
            self.disk.is_counting = counting

    def crash(self) -> None:
        """Kill the cloud now, between two steps, and start it again."""
        self._release_resources()
        self.boot()

    def _call_surviving(self, work: Callable[[], T]) -> T | None:
        """Call a function and return its result, or None if the cloud died in it and was started again."""
        try:
            return work()
        except Crashed:
            self._release_resources()
            self.boot()
            return None

    def close(self) -> None:
        """Stop the cloud, and remove its data directory."""
        self.is_closed = True
        self.disk.is_counting = False
        self.disk.dies_at = None
        self.cloud.stop()
        self.disk.drop()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    # --- time ---------------------------------------------------------------------------------

    def advance(
        self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Let this much time pass; workers run when they are due."""
        span_s = clocks.seconds(seconds=seconds, minutes=minutes, hours=hours, days=days)
        self.run_to(self.clock.now_us + round(span_s * US))

    def run_to(self, until_us: int) -> None:
        """Run the workers until a time, in microseconds since the simulation began."""
        while self.clock.now_us < until_us or not self.workers.is_idle:
            self._call_surviving(lambda: self.workers.work(None, max(until_us, self.clock.now_us)))

    def run_until_quiet(self) -> None:
        """Let time pass until all records put so far are handled. Raises NotQuiet."""
        began_us = self.clock.now_us
        while True:
            self._call_surviving(lambda: self.workers.work(None, None))
            if not self.workers.is_idle:
                continue
            if not self._is_anything_waiting():
                return
            due_us = self.workers.next_due_us()
            if due_us is None or due_us > began_us + _QUIET_WITHIN_S * US:
                raise NotQuiet(
                    f"{'; '.join(self.waiting())}: for {_QUIET_WITHIN_S // 3600} hours. {self.how_to_repeat}"
                )
            self.clock.now_us = max(self.clock.now_us, due_us)
            self.workers.release()

    def sleep(self, seconds: float) -> None:
        """Let time pass for a sleeping caller: other workers run while a test sleeps, but not while a function does."""
        if self._in_function:
            self.clock.sleep(seconds)
        else:
            self.advance(seconds=max(0.0, seconds))

    def page(self, path: str) -> Any:
        """See `CloudAccess.page`. The pages that are polled often are answered without JSON."""
        if path == MAPPINGS:
            most = 1 if self._asks_whether else MOST_COUNTED
            return {"mappings": self.cloud.lambda_.mappings.backlogs(most)}
        if path == DELIVERIES:
            return self.cloud.firehose.statuses()
        if path == CHANNELS:
            return self.cloud.kinesis.channels.statuses()
        return super().page(path)

    def waiting(self) -> list[str]:
        """Return a sentence for everything that waits: records, asynchronous events, messages."""
        counting, self.disk.is_counting = self.disk.is_counting, False
        try:
            return [sentence for look in self._looks_for_waiting for sentence in look(self)]
        finally:
            self.disk.is_counting = counting

    def _is_anything_waiting(self) -> bool:
        """Whether anything waits; the place where something waited the last time is asked first."""
        counting, self.disk.is_counting = self.disk.is_counting, False
        looks = self._looks_for_waiting
        self._asks_whether = True
        try:
            waiting = next((look for look in looks if look(self)), None)
        finally:
            self.disk.is_counting, self._asks_whether = counting, False
        if waiting is not None and waiting is not looks[0]:
            looks.remove(waiting)
            looks.insert(0, waiting)
        return waiting is not None

    @property
    def how_to_repeat(self) -> str:
        """How a person repeats this simulation."""
        return f"To repeat this simulation: seed={self.seed}."

    # --- requests -----------------------------------------------------------------------------

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request of the test or of a function. A request that the cloud does not survive gets no answer."""
        inside = self._in_function > 0
        service = self.cloud.gateway.names.service_of(request)
        if service in _NOT_HERE:
            raise NotSimulated(
                "A simulation has no EMR: call the step's function yourself, or leave it out."
            )
        what = request.headers.get("x-amz-target", "").rpartition(".")[2] or request.method
        who = "function" if inside else "test"
        try:
            response = self.handle(request)
        except Crashed:
            if inside:
                # The function dies with its cloud.
                raise
            self._release_resources()
            self.boot()
            self.tell("request", f"{who} {service} {what} lost")
            return HttpResponse(DROPPED)
        body = response.body if isinstance(response.body, bytes) else b""
        digest = hashlib.sha256(_WHERE.sub(b"", body)).hexdigest()[:16]
        self.tell("request", f"{who} {service} {what} {response.status} {digest}")
        return response

    def handle(self, request: HttpRequest) -> HttpResponse:
        """Answer a request in process; workers run while it waits for a record, or for what it changed to be stored."""
        answer = self.cloud.handle(request)
        if isinstance(answer, Future):
            done = threading.Event()
            answer.add_done_callback(lambda _: done.set())
            self.clock.wait(done, None)
            answer = answer.result()
        if answer.waits:
            self.workers.work(None, None)
        return in_process.whole(answer, request)

    @property
    def route(self) -> in_process.Route:
        """The route by which requests of this process reach this cloud."""
        return in_process.Route(self.answer, f"127.0.0.1:{NO_PORT}")

    def session(self, *, account: str | None = None, region: str | None = None) -> boto3.Session:
        """See `CloudAccess.session`: inside the block its clients reach this cloud."""
        return get_session(account or self.account, region or self.region)

    # --- functions ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _around_function(self, spec: SandboxSpec) -> Generator[None]:
        """Let a function die before its work, or after it: then its work is done, but nobody gets its answer."""
        self._in_function += 1
        try:
            if self._happens(self.chances.function_dies):
                self.tell("function", f"{spec.name} dies before its work")
                raise FunctionDied
            yield
            if self._happens(self.chances.function_dies):
                self.tell("function", f"{spec.name} dies after its work")
                raise FunctionDied
        finally:
            self._in_function -= 1

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._luck.random() < chance

    # --- the history --------------------------------------------------------------------------

    def tell(self, kind: str, what: str) -> None:
        """Add a line to the history."""
        self.history.append(f"{self.clock.now_us} {kind} {what}")

    def digest(self) -> str:
        """Return a hash of the history."""
        return hashlib.sha256("\n".join(self.history).encode()).hexdigest()


def _events_waiting(cloud: SimulatedCloud) -> list[str]:
    """Return a sentence that counts the asynchronous events waiting for functions."""
    count = cloud.cloud.database.query("SELECT count(*) FROM doc_lambda_async")[0][0]
    return [f"{count} events wait for functions"] if count else []
