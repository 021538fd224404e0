"""What a call leaves in memory: no live object for each call once the bounded memories are full, and no cycle."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.services.lambda_.errors import SANDBOX_IDLE_SECONDS
from headrace.testing.clouds import LocalCloud
from headrace.testing.functions import InProcessEnvironment
from headrace.testing.waiting import until
from scripts.memory_calls import NAMES, Call, operations

CALLS = 40
# Work is done at once, since the cloud's time is moved. Bounded memories that fill meanwhile shrink at no wait: the
# calls are counted once more.
SETTLES_WITHIN_S = 1
# Objects that hold a whole request or its body.
REQUEST_PARTS = ("Request", "HttpRequest", "BytesIO", "EnvironHeaders", "AWSPreparedRequest")


@pytest.fixture(scope="module")
def here() -> Iterator[LocalCloud]:
    """A cloud whose bounded memories are full after a few calls."""
    from moto.ssm import models as ssm

    from headrace.services.cloudwatch import patches
    from headrace.services.dynamodb import streams

    with pytest.MonkeyPatch.context() as patched, LocalCloud(log_group_events=10) as cloud:
        patched.setattr(patches, "MOST_RAW", 10)
        patched.setattr(patches, "MOST_POINTS", 10)
        patched.setattr(streams, "MOST_RECORDS", 10)
        patched.setattr(ssm, "PARAMETER_VERSION_LIMIT", 2)
        yield cloud


@pytest.fixture(scope="module")
def calls(here: LocalCloud) -> Iterator[dict[str, Call]]:
    made = operations(here.session().client)
    gc.collect()
    # What exists now is not counted, which makes counting quick.
    gc.freeze()
    yield made
    gc.unfreeze()


def live_objects() -> Counter[type[Any]]:
    gc.collect()
    return Counter(map(type, gc.get_objects()))


def live_objects_at_rest(cloud: LocalCloud) -> Counter[type[Any]]:
    """Move the time until no environment of a function is left, and count.

    What waits is processed and sent meanwhile. An environment has a boto3 session, 2,000 objects, and ends when it is
    idle: one that begins between two counts would look like what calls leave.
    """
    cloud.advance(seconds=SANDBOX_IDLE_SECONDS)
    counts = live_objects()
    assert not counts[InProcessEnvironment]
    return counts


def test_every_operation_has_its_name(calls: dict[str, Call]):
    assert tuple(calls) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_live_objects_do_not_grow_with_calls(here: LocalCloud, calls: dict[str, Call], name: str):
    def no_type_grew() -> bool:
        before = until(lambda: live_objects_at_rest(here))
        for number in range(CALLS):
            calls[name](number)

        def all_is_as_before() -> bool:
            grown = {
                kind.__qualname__: count
                for kind, count in (live_objects_at_rest(here) - before).items()
                if count >= CALLS
            }
            assert not grown
            return True

        return until(all_is_as_before, timeout_s=SETTLES_WITHIN_S)

    for number in range(CALLS):
        calls[name](number)
    # Again after a failure: what is loaded at the first use grows once.
    until(no_type_grew)


@pytest.mark.parametrize("name", NAMES)
def test_a_request_is_freed_without_the_garbage_collector(calls: dict[str, Call], name: str):
    calls[name](0)
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for number in range(CALLS):
            calls[name](number)
        gc.collect()
        garbage = Counter(type(one).__name__ for one in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    kept = {part: garbage[part] for part in REQUEST_PARTS if garbage[part] >= CALLS}
    assert not kept
