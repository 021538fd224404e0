"""Creation policies: a resource is complete when its signals have come."""

from __future__ import annotations

from headrace.services.cloudformation.resource_states import ResourceStates
from headrace.services.cloudformation.signals import (
    Signal,
    Wanted,
    check_policy,
    receiver_of,
    wait_for,
)
from headrace.services.cloudformation.state import Resource


def wait_for_signals(states: ResourceStates, resource: Resource, wanted: Wanted) -> None:
    """Wait for the signals that a resource's CreationPolicy asks for. Raises ResourceFailed, Cancelled."""
    ports = states.ports

    def told(signal: Signal) -> None:
        reason = f"Received {signal.status} signal with UniqueId {signal.unique_id}"
        states.event(resource, "CREATE_IN_PROGRESS", reason)

    found = wait_for(
        ports.signals,
        receiver_of(states.stack.stack_id, resource.logical_id),
        wanted,
        monotonic_s=ports.clock.monotonic_s,
        pause=states.context(resource).pause,
        told=told,
    )
    check_policy(found, wanted)


def forget_signals(states: ResourceStates, resource: Resource) -> None:
    """Drop the signals that an earlier resource of that name got."""
    states.ports.signals.forget(receiver_of(states.stack.stack_id, resource.logical_id))
