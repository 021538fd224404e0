"""An answer to a task is not missed, whenever it comes."""

from __future__ import annotations

from typing import Any

from moto.stepfunctions.parser.asl.eval.callback.callback import (
    CallbackEndpoint,
    CallbackOutcomeSuccess,
)

from headrace.services.stepfunctions.activities import with_early_answer


def waits_for_heartbeats(endpoint: Any) -> bool:
    """Whether a wait that may not last, which begins now, is over by its time."""
    set_up = with_early_answer(CallbackEndpoint.setup_heartbeat_endpoint)
    return not set_up(endpoint, heartbeat_seconds=0).clear_and_wait()


def test_a_task_that_is_answered_before_it_waits_for_heartbeats_does_not_wait():
    endpoint = CallbackEndpoint("token")
    endpoint.notify(CallbackOutcomeSuccess("token", "{}"))
    assert not waits_for_heartbeats(endpoint)


def test_an_execution_that_is_stopped_before_its_task_waits_does_not_wait():
    endpoint = CallbackEndpoint("token")
    endpoint.interrupt_all()
    assert not waits_for_heartbeats(endpoint)


def test_a_task_without_an_answer_waits():
    assert waits_for_heartbeats(CallbackEndpoint("token"))
