"""Simulates a cloud: one thread, virtual time, and a seed that decides who works when, what fails and when it dies.

    with headrace.testing.simulation(seed=7) as cloud:
        cloud.client("kinesis").create_stream(StreamName="orders", ShardCount=2)
        cloud.advance(hours=3)
        cloud.run_until_quiet()

The same seed gives the same history, byte for byte, on any machine. It is for code that takes its chances from
`random` and `uuid` and its time from `time` and `datetime`, all of which are the simulation's inside the block.
"""
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import json
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import boto3
from botocore.config import Config as BotocoreConfig

from headrace.aws.http import DROPPED, HttpRequest, HttpResponse
from headrace.aws.sessions import Credentials
from headrace.cloud import Cloud
from headrace.core.config import DEFAULT_ACCOUNT_ID, DEFAULT_REGION, Config
from headrace.core.ids import Ids
from headrace.services.lambda_.runtime.environment import SandboxSpec
from headrace.testing import clock as clocks
from headrace.testing import environment, transport
from headrace.testing.access import CloudAccess
from headrace.testing.clouds import NO_PORT, check_options, temporary_folder
from headrace.testing.functions import FunctionDied, InProcessEnvironment, Rules
from headrace.testing.simulated.clock import START_MS, US, VirtualClock
from headrace.testing.simulated.disk import Crashed, Disk
from headrace.testing.simulated.workers import SeededWorkers
from headrace.testing.waiting import NoSuchPage, still_waiting

T = TypeVar("T")
# Buffers wait for 900 s at most, retries of asynchronous events for minutes; what is not quiet then never is.
_QUIET_WITHIN_S = 6 * 3600
# Of a function's folder: it says where the folder lies, which is another place on another machine.
_WHERE = re.compile(rb'"CodeSha256": ?"[^"]*"|file://[^"]*')
_NOT_HERE = ("emr", "emr-serverless")


class NotSimulated(NotImplementedError):
    """Something that a simulation cannot do; the text is one sentence."""


class NotQuiet(AssertionError):
    """Records wait for hours, and nothing is done about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """How likely it is, each time, that something goes wrong. All 0 is a cloud where nothing does.

    Attributes:
        lost_request, lost_answer: of a request to a service, before or after it is done: the connection breaks.
        throttled: of a request to Kinesis.
        partial: of each record of a PutRecords.
        function_dies: of an invocation, before it begins; and again when it has done its work but not answered.
        crash_every: the cloud dies after about so many writes to the disk; 0 for never.
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


class SimulatedCloud(CloudAccess):
    """A cloud that runs when it is told to. For one thread.

    Attributes:
        seed: everything follows from it.
        chances: what goes wrong now; `chances_of_all` when nothing is undisturbed.
        history: a line for whatever has happened.
        crashes: how often it has died.
        data_dir: its folder.
    """

    def __init__(
        self,
        seed: int,
        *,
        chances: Chances = CALM,
        account: str = DEFAULT_ACCOUNT_ID,
        region: str = DEFAULT_REGION,
        **options: Any,
    ) -> None:
        """See `simulation`."""
        check_options(account, options)
        super().__init__(f"http://127.0.0.1:{NO_PORT}", account=account, region=region)
        self.seed = seed
        self.chances = self.chances_of_all = chances
        self.history: list[str] = []
        self.crashes = 0
        self.data_dir = temporary_folder()
        self.clock = VirtualClock()
        self.disk = Disk()
        # One for each matter: what one of them asks for does not change what another gets.
        self._order, self._luck, self._ids = (
            random.Random(f"{seed}/{what}") for what in ("order", "luck", "ids")
        )
        self._options = options
        self._in_function = 0
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

    def add_fault(self, rule: dict[str, Any]) -> None:
        """Add a fault on demand, as `headrace faults add` does; see docs/services.md."""
        self.cloud.gateway.faults.add(rule)

    @property
    def can_advance(self) -> bool:
        """See `CloudAccess.can_advance`."""
        return True

    @property
    def runs_folders(self) -> bool:
        """See `CloudAccess.runs_folders`."""
        return True

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
            waiting = self.waiting()
            if not waiting:
                return
            due_us = self.workers.next_due_us()
            if due_us is None or due_us > began_us + _QUIET_WITHIN_S * US:
                raise NotQuiet(
                    f"{'; '.join(waiting)}: for {_QUIET_WITHIN_S // 3600} hours. {self.how_to_repeat}"
                )
            self.clock.now_us = max(self.clock.now_us, due_us)
            self.workers.release()

    def sleep(self, seconds: float) -> None:
        """Let time pass for who sleeps: a function holds everybody up, a test lets everybody work."""
        if self._in_function:
            self.clock.sleep(seconds)
        else:
            self.advance(seconds=max(0.0, seconds))

    def waiting(self) -> list[str]:
        """Return a sentence for whatever waits: records, asynchronous events, messages."""
        counting, self.disk.is_counting = self.disk.is_counting, False
        try:
            sentences = still_waiting(self)
            events = self.cloud.database.query("SELECT count(*) FROM doc_lambda_async")[0][0]
        finally:
            self.disk.is_counting = counting
        return [*sentences, *([f"{events} events wait for functions"] if events else [])]

    @property
    def how_to_repeat(self) -> str:
        """What a person does to see it again."""
        return f"To repeat it: seed={self.seed}."

    # --- requests -----------------------------------------------------------------------------

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request of the test, or of a function. A request of which the cloud dies gets no answer."""
        inside = self._in_function > 0
        service = self.cloud.gateway.service_of(request)
        if service in _NOT_HERE:
            raise NotSimulated(
                "A simulation has no EMR: call the step's function yourself, or leave it out."
            )
        what = request.headers.get("x-amz-target", "").rpartition(".")[2] or request.method
        who = "function" if inside else "test"
        try:
            response = transport.whole(self.cloud.handle(request), request)
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

    def page(self, path: str) -> Any:
        """See `CloudAccess.page`."""
        headers = {"host": "localhost", "accept": "application/json"}
        request = HttpRequest("GET", f"/_headrace/{path}", "", headers)
        answer = transport.whole(self.cloud.handle(request), request)
        if answer.status != 200 or not isinstance(answer.body, bytes):
            raise NoSuchPage(f"/_headrace/{path} answers {answer.status}.")
        return json.loads(answer.body)

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


class _KeptClients(boto3.Session):
    """A session that makes each client once for the whole program: making them takes longer than a simulated hour."""

    def client(self, service_name: str, *args: Any, **kwargs: Any) -> Any:
        """See boto3."""
        if args or kwargs:
            return cast("Any", super()).client(service_name, *args, **kwargs)
        kept = self.__dict__.setdefault("kept", {})
        if service_name not in kept:
            # Its own description of itself takes botocore a tenth of a request, each time.
            config = BotocoreConfig(user_agent="headrace-simulation")
            kept[service_name] = cast("Any", super()).client(service_name, config=config)
        return kept[service_name]


@functools.cache
def kept_session(account: str, region: str) -> boto3.Session:
    """Return the session of an account for all simulations of this program: they have one address."""
    made: Any = environment.session(
        f"http://127.0.0.1:{NO_PORT}",
        kind=_KeptClients,
        aws_access_key_id=account,
        aws_secret_access_key=environment.SECRET,
        region_name=region,
    )
    return made


@contextlib.contextmanager
def simulation(seed: int, *, chances: Chances = CALM, **options: Any) -> Generator[SimulatedCloud]:
    """Enter a simulated cloud: one thread, virtual time, nothing sleeps.

    Args:
        seed: the same seed and the same calls give the same history.
        chances: what goes wrong how often; `headrace.testing.ROUGH` is a bad day.
        options: account, region, and those of `headrace.testing.cloud`.

    What fails inside is told with its seed. Raises UnknownOption.
    """
    cloud = SimulatedCloud(seed, chances=chances, **options)
    wanted = environment.pointing_at(
        str(cloud.endpoint_url), account=cloud.account, region=cloud.region
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(environment.variables(wanted))
        stack.enter_context(environment.default_session(cloud.session()))
        stack.enter_context(_time_of(cloud))
        stack.enter_context(_chance_of(seed))
        stack.enter_context(cloud.disk.watched())
        route = cloud.route
        transport.enter(route)
        stack.callback(transport.leave, route)
        cloud.boot()
        stack.callback(cloud.close)
        try:
            yield cloud
        except Exception as error:
            error.add_note(cloud.how_to_repeat)
            raise


@contextlib.contextmanager
def _time_of(cloud: SimulatedCloud) -> Generator[None]:
    """Have `time` and `datetime` tell the simulation's time: functions, and botocore between its tries, look there."""
    try:
        import time_machine
    except ImportError as error:
        raise NotSimulated(
            "A simulation needs time-machine: pip install 'headrace[testing]'"
        ) from error

    before = time.sleep, time.monotonic
    traveller = time_machine.travel(START_MS / 1000, tick=False)
    coordinates = traveller.start()
    clock = cloud.clock
    clock.follow = lambda now_us: coordinates.move_to(START_MS / 1000 + now_us / US)
    time.sleep, time.monotonic = cloud.sleep, clock.monotonic_s
    try:
        yield
    finally:
        clock.follow = lambda _: None
        time.sleep, time.monotonic = before
        traveller.stop()


@contextlib.contextmanager
def _chance_of(seed: int) -> Generator[None]:
    """Have `random`, `uuid` and `os.urandom` follow from the seed."""
    state, urandom = random.getstate(), os.urandom
    own = random.Random(f"{seed}/functions")
    random.seed(f"{seed}/random")
    os.urandom = own.randbytes
    try:
        yield
    finally:
        os.urandom = urandom
        random.setstate(state)
