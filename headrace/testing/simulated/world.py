"""A simulated cloud: one thread, virtual time, and a seed that decides who works when, what fails and when it dies."""

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
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import boto3

from headrace.aws.http import DROPPED, HttpRequest, HttpResponse
from headrace.aws.sessions import Credentials
from headrace.cloud import Cloud
from headrace.core.config import DEFAULT_ACCOUNT_ID, DEFAULT_REGION, Config
from headrace.core.ids import Ids
from headrace.services.lambda_.mappings.backlog import MOST_COUNTED
from headrace.services.lambda_.runtime.environment import SandboxSpec
from headrace.testing import clock as clocks
from headrace.testing import environment, transport
from headrace.testing.functions import FunctionDied, InProcessEnvironment, Rules
from headrace.testing.in_process import (
    NO_PORT,
    InProcessAccess,
    check_options,
    temporary_folder,
)
from headrace.testing.simulated.chances import CALM, Chances
from headrace.testing.simulated.clients import kept_session
from headrace.testing.simulated.clock import US, VirtualClock
from headrace.testing.simulated.copies import copy
from headrace.testing.simulated.disk import Crashed, Disk
from headrace.testing.simulated.workers import SeededWorkers
from headrace.testing.waiting import DELIVERIES, MAPPINGS, deliveries_waiting, mappings_waiting

T = TypeVar("T")
# Buffers wait for 900 s at most, retries of asynchronous events for minutes; what is not quiet then never is.
_QUIET_WITHIN_S = 6 * 3600
# Of a function's folder: it says where the folder lies, which is another place on another machine.
_WHERE = re.compile(rb'"CodeSha256": ?"[^"]*"|file://[^"]*')
# In a folder that `save_to` has made: microseconds since the simulation began.
_TIME = "simulated-time"
_NOT_HERE = ("emr", "emr-serverless")


class NotSimulated(NotImplementedError):
    """Something that a simulation cannot do; the text is one sentence."""


class NotQuiet(AssertionError):
    """Records wait for hours, and nothing is done about them."""


class SimulatedCloud(InProcessAccess):
    """A cloud that runs when it is told to. For one thread.

    Attributes:
        seed: everything follows from it.
        chances: what goes wrong now.
        history: a line for whatever has happened.
        crashes: how often it has died.
        data_dir: its folder.
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
        # One for each matter: what one of them asks for does not change what another gets.
        self._order, self._luck, self._ids = (
            random.Random(f"{seed}/{what}") for what in ("order", "luck", "ids")
        )
        # Its functions have the account's own keys, so a report on permissions would only take time.
        self._options: dict[str, Any] = {"iam": "off", **options}
        self._in_function = 0
        # How many records wait is not counted where one is enough.
        self._asks_whether = False
        looks = [mappings_waiting, deliveries_waiting, _events_waiting]
        self._looks_for_waiting: list[Callable[[SimulatedCloud], list[str]]] = [*looks]
        # Called with the data directory of a cloud that has just died; and when another is up, before it does anything.
        self.when_dead: list[Callable[[Path], None]] = []
        self.when_up: list[Callable[[], None]] = []
        self.workers: SeededWorkers
        self.cloud: Cloud
        self.is_closed = False

    # --- life ---------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start a cloud on what the last one has left, again and again until it has come up."""
        while True:
            try:
                self._boot()
            except Crashed:
                self._bury()
                continue
            return

    def _boot(self) -> None:
        # Quick ids: nobody here guesses them.
        ids = Ids(self._ids.getrandbits(64))
        self.workers = SeededWorkers(self.clock, self._order, self.tell)
        rules = Rules(
            clock=self.clock,
            ids=ids,
            elapsed_s=self.clock.monotonic_s,
            session=lambda: kept_session(self.account, self.region),
            around=self._around_function,
        )

        def environments(spec: SandboxSpec, credentials: Credentials) -> InProcessEnvironment:
            if not spec.runtime.startswith("python"):
                raise NotSimulated(
                    f"A simulation runs functions in Python, and {spec.name} is {spec.runtime}."
                )
            # Those of a role are made of random bytes, and would be another's in each run.
            own = Credentials(spec.account, environment.SECRET, "", credentials.expires_ms)
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
        )
        # Files of a function change by a person's hand, who does nothing in the virtual time of one life.
        self.cloud.lambda_.code.look_every_s = math.inf
        self.cloud.start()
        self._add_faults()
        self.tell("start", f"boot {self.crashes}")
        self._look(*self.when_up)

    @contextlib.contextmanager
    def undisturbed(self) -> Generator[None]:
        """Let nothing go wrong inside the block: for deploying, and for looking at the end."""
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

    def _bury(self) -> None:
        """Drop a cloud that has died, as the kernel does, and let those look that want to."""
        self.crashes += 1
        self.tell("crash", f"after {self.disk.calls} calls")
        self.workers.is_dead = True
        self.disk.drop()
        if self.crashes % 50 == 0:
            # Dead clouds are rings of objects, with open files in them.
            gc.collect()
        self._look(*(functools.partial(look, self.data_dir) for look in self.when_dead))

    def _look(self, *looks: Callable[[], None]) -> None:
        """Call what only looks: nobody dies of it."""
        counting, self.disk.is_counting = self.disk.is_counting, False
        try:
            for look in looks:
                look()
        finally:
            self.disk.is_counting = counting

    def save_to(self, folder: Path) -> None:
        """Copy what is on the disk to a new folder, from which other simulations may start."""
        counting, self.disk.is_counting = self.disk.is_counting, False
        try:
            self.cloud.database.query("PRAGMA wal_checkpoint(TRUNCATE)")
            shutil.copytree(self.data_dir, folder)
            (folder / _TIME).write_text(str(self.clock.now_us))
        finally:
            self.disk.is_counting = counting

    def crash(self) -> None:
        """Let the cloud die now, between two steps, and start it again."""
        self._bury()
        self.boot()

    def _surviving(self, work: Callable[[], T]) -> T | None:
        """Do something; None when the cloud has died of it and was started again."""
        try:
            return work()
        except Crashed:
            self._bury()
            self.boot()
            return None

    def close(self) -> None:
        """End it, and remove its folder."""
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
        """Let so much time pass; whoever has something to do meanwhile does it."""
        span_s = clocks.seconds(seconds=seconds, minutes=minutes, hours=hours, days=days)
        self.run_to(self.clock.now_us + round(span_s * US))

    def run_to(self, until_us: int) -> None:
        """Let everybody work until a time, given in microseconds since the beginning."""
        while self.clock.now_us < until_us or not self.workers.is_idle:
            self._surviving(lambda: self.workers.work(None, max(until_us, self.clock.now_us)))

    def run_until_quiet(self) -> None:
        """Let time pass until every record is handled that has been put. Raises NotQuiet."""
        began_us = self.clock.now_us
        while True:
            self._surviving(lambda: self.workers.work(None, None))
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
        """Let time pass for who sleeps: a function holds everybody up, a test lets everybody work."""
        if self._in_function:
            self.clock.sleep(seconds)
        else:
            self.advance(seconds=max(0.0, seconds))

    def page(self, path: str) -> Any:
        """See `CloudAccess.page`. What is looked at again and again is not asked for in JSON."""
        if path == MAPPINGS:
            most = 1 if self._asks_whether else MOST_COUNTED
            return {"mappings": self.cloud.lambda_.mappings.backlogs(most)}
        if path == DELIVERIES:
            return self.cloud.firehose.statuses()
        return super().page(path)

    def waiting(self) -> list[str]:
        """Return a sentence for whatever waits: records, asynchronous events, messages."""
        counting, self.disk.is_counting = self.disk.is_counting, False
        try:
            return [sentence for look in self._looks_for_waiting for sentence in look(self)]
        finally:
            self.disk.is_counting = counting

    def _is_anything_waiting(self) -> bool:
        """Whether something waits, asking first where something waited the last time."""
        counting, self.disk.is_counting = self.disk.is_counting, False
        looks = self._looks_for_waiting
        self._asks_whether = True
        try:
            found = next((look for look in looks if look(self)), None)
        finally:
            self.disk.is_counting, self._asks_whether = counting, False
        if found is not None and found is not looks[0]:
            looks.remove(found)
            looks.insert(0, found)
        return found is not None

    @property
    def how_to_repeat(self) -> str:
        """What a person does to see it again."""
        return f"To repeat it: seed={self.seed}."

    # --- requests -----------------------------------------------------------------------------

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request of the test, or of a function. A request of which the cloud dies gets no answer."""
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
                # The function dies with the cloud that runs it.
                raise
            self._bury()
            self.boot()
            self.tell("request", f"{who} {service} {what} lost")
            return HttpResponse(DROPPED)
        body = response.body if isinstance(response.body, bytes) else b""
        digest = hashlib.sha256(_WHERE.sub(b"", body)).hexdigest()[:16]
        self.tell("request", f"{who} {service} {what} {response.status} {digest}")
        return response

    @property
    def route(self) -> transport.Route:
        """How requests of this process get to it."""
        return transport.Route(self.answer, f"127.0.0.1:{NO_PORT}")

    def session(self, *, account: str | None = None, region: str | None = None) -> boto3.Session:
        """See `CloudAccess.session`: inside the block its clients reach this cloud."""
        return kept_session(account or self.account, region or self.region)

    # --- functions ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _around_function(self, spec: SandboxSpec) -> Generator[None]:
        """Let a function die before its work, or after it: then its work is done, and nobody learns of it."""
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
        """Return what tells one history from another."""
        return hashlib.sha256("\n".join(self.history).encode()).hexdigest()


def _events_waiting(cloud: SimulatedCloud) -> list[str]:
    """Return a sentence for the asynchronous events that wait for functions."""
    count = cloud.cloud.database.query("SELECT count(*) FROM doc_lambda_async")[0][0]
    return [f"{count} events wait for functions"] if count else []
