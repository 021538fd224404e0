"""The probabilities of faults in a simulation."""

from __future__ import annotations

from dataclasses import dataclass


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
