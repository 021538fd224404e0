"""The probabilities of faults in a simulation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """The probability of each fault, for each occasion; with all at 0 nothing goes wrong.

    Attributes:
        lost_request: the connection breaks before a service has done a request.
        lost_answer: the connection breaks after a service has done a request.
        throttled: Kinesis throttles a request.
        partial: one record of a PutRecords call fails.
        function_dies: a function dies before its work; drawn again for after its work, before its answer.
        crash_every: the average number of disk writes before the cloud dies; 0 for never.
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
