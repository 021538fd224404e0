"""What is asked before every action when AWS's limits are on: its call rate."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from headrace.aws.operation import Action, Call, operation_name
from headrace.services.kinesis.throttle import Throttle

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis


def rated(action: Action, throttle: Throttle) -> Action:
    """Return `action` behind its call rate. SubscribeToShard counts its own: it has two ways in."""
    operation = operation_name(action)

    @functools.wraps(action)
    def run(kinesis: Kinesis, call: Call, request: Any) -> Any:
        if operation != "SubscribeToShard":
            throttle.check_call(operation, request, call)
        return action(kinesis, call, request)

    return run
