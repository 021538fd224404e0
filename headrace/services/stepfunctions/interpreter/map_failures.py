"""The failure of a Map state, under the name by which its Catch and Retry know it."""
# pyright: reportMissingTypeStubs=false
# moto has no public attributes for these patches.

from __future__ import annotations

from typing import Any


def map_failure(env: Any, error: str, cause: str) -> Exception:
    """Return the exception with which a Map ends in moto's interpreter."""
    from moto.stepfunctions.parser.api import HistoryEventType
    from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
        FailureEvent,
        FailureEventException,
    )
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

    details: Any = {"error": error, "cause": cause}
    details_of: Any = EventDetails
    kind: Any = HistoryEventType.MapRunFailed
    name: Any = type("MapErrorName", (ErrorName,), {})
    return FailureEventException(
        FailureEvent(
            env=env,
            error_name=name(error),
            event_type=kind,
            event_details=details_of(mapRunFailedEventDetails=details),
        )
    )
