"""Starts a simulated cloud: one thread, virtual time, and a seed that decides the order of work, faults and crashes.

    with headrace.testing.simulation(seed=7) as cloud:
        cloud.client("kinesis").create_stream(StreamName="orders", ShardCount=2)
        cloud.advance(hours=3)
        cloud.run_until_quiet()

The same seed gives the same history, byte for byte, on any machine, for code that takes its randomness from `random`
and `uuid` and its time from `time` and `datetime`: inside the block all four follow the simulation.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import random
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from headrace.core.extras import install_command
from headrace.testing import function_variables, in_process
from headrace.testing.simulated.workers import START_MS, US
from headrace.testing.simulated.world import CALM, Chances, NotSimulated, SimulatedCloud


@contextlib.contextmanager
def simulation(
    seed: int, *, chances: Chances = CALM, start_from: Path | None = None, **options: Any
) -> Generator[SimulatedCloud]:
    """Run a simulated cloud: one thread, virtual time, nothing sleeps.

    Args:
        seed: the same seed and the same calls give the same history.
        chances: the probabilities of faults; `headrace.testing.ROUGH` is a bad day.
        start_from: a folder that `SimulatedCloud.save_to` has written: the cloud starts with its deployed resources.
        options: account, region, and the options of `headrace.testing.cloud`.

    An exception from inside gets a note with the seed. Raises UnknownOption.
    """
    cloud = SimulatedCloud(seed, chances=chances, start_from=start_from, **options)
    variables_given = function_variables.pointing_at(
        str(cloud.endpoint_url), account=cloud.account, region=cloud.region
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(function_variables.variables(variables_given))
        stack.enter_context(function_variables.default_session(cloud.session()))
        stack.enter_context(_time_of(cloud))
        stack.enter_context(_chance_of(seed))
        stack.enter_context(cloud.disk.watched())
        stack.enter_context(_dataclasses_compiled_once())
        route = cloud.route
        in_process.enter(route)
        stack.callback(in_process.leave, route)
        cloud.boot()
        stack.callback(cloud.close)
        try:
            yield cloud
        except Exception as error:
            error.add_note(cloud.how_to_repeat)
            raise


@contextlib.contextmanager
def _time_of(cloud: SimulatedCloud) -> Generator[None]:
    """Make `time` and `datetime` return the simulation's time, for functions and for botocore's retries."""
    try:
        import time_machine
    except ImportError as error:
        raise NotSimulated(
            f"A simulation needs time-machine: {install_command('testing')}"
        ) from error

    before = time.sleep, time.monotonic
    traveller = time_machine.travel(START_MS / 1000, tick=False)
    coordinates = traveller.start()
    clock = cloud.clock
    clock.follow = lambda now_us: coordinates.move_to(START_MS / 1000 + now_us / US)
    time.sleep, time.monotonic = (
        _of_this_thread(cloud.sleep, before[0]),
        _of_this_thread(clock.monotonic_s, before[1]),
    )
    try:
        yield
    finally:
        clock.follow = lambda _: None
        time.sleep, time.monotonic = before
        traveller.stop()


def _of_this_thread(ours: Callable[..., Any], before: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `ours` on this thread and `before` on the threads outside the simulation."""
    thread = threading.get_ident()

    def call(*args: Any) -> Any:
        return ours(*args) if threading.get_ident() == thread else before(*args)

    return call


@contextlib.contextmanager
def _chance_of(seed: int) -> Generator[None]:
    """Make `random`, `uuid` and `os.urandom` follow from the seed."""
    state, urandom = random.getstate(), os.urandom
    own = random.Random(f"{seed}/functions")
    random.seed(f"{seed}/random")
    os.urandom = own.randbytes
    try:
        yield
    finally:
        os.urandom = urandom
        random.setstate(state)


@contextlib.contextmanager
def _dataclasses_compiled_once() -> Generator[None]:
    """Cache the code that `dataclass` compiles, because each cold start of a function defines its classes again."""
    module: Any = dataclasses
    module.exec = _execute
    try:
        yield
    finally:
        del module.exec


def _execute(text: str, *places: Any) -> None:
    exec(_compile(text), *places)


@functools.lru_cache(maxsize=1000)
def _compile(text: str) -> Any:
    return compile(text, "<string>", "exec")
