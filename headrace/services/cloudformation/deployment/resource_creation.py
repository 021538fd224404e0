"""Creates one resource of a stack, and waits for the signals that its CreationPolicy requires."""

from __future__ import annotations

import functools

from headrace.services.cloudformation.deployment.alias_deployments import ALIAS
from headrace.services.cloudformation.deployment.definitions import EvaluatedResource
from headrace.services.cloudformation.deployment.resource_maker import INITIATED, make
from headrace.services.cloudformation.deployment.resource_states import ResourceStates
from headrace.services.cloudformation.signals import (
    SIGNALLED,
    ExpectedSignals,
    Signal,
    check_policy,
    receiver_of,
    wait_for,
)
from headrace.services.cloudformation.state import Resource

_STATUS = "CREATE_IN_PROGRESS"


def create(states: ResourceStates, defined: EvaluatedResource) -> None:
    """Create a resource, and store the result. Raises the error that occurred."""
    resource = defined.resource
    if resource.type in SIGNALLED or resource.type == ALIAS:
        # Drop signals to an earlier resource of this name; once the status is set, new ones may come.
        states.ports.signals.forget(receiver_of(states.stack.stack_id, resource.logical_id))
    states.set_status(resource, _STATUS)
    keep = functools.partial(states.set_status, resource, _STATUS, INITIATED)
    try:
        result = make(states, resource, defined.kind, keep)
        if defined.signals is not None:
            _wait_for_signals(states, resource, defined.signals)
    except Exception as error:
        states.fail(resource, "CREATE", error)
        raise
    states.store_result(resource, result, "CREATE_COMPLETE")


def _wait_for_signals(
    states: ResourceStates, resource: Resource, expected: ExpectedSignals
) -> None:
    """Wait for the signals that a resource's CreationPolicy requires. Raises ResourceFailed, Cancelled."""
    ports = states.ports

    def on_signal(signal: Signal) -> None:
        reason = f"Received {signal.status} signal with UniqueId {signal.unique_id}"
        states.event(resource, _STATUS, reason)

    received = wait_for(
        ports.signals,
        receiver_of(states.stack.stack_id, resource.logical_id),
        expected,
        monotonic_s=ports.clock.monotonic_s,
        pause=states.context(resource).pause,
        on_signal=on_signal,
    )
    check_policy(received, expected)
