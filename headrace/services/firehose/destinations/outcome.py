"""The reason why a destination refused a record or a batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeliveryRefusal:
    """Why a record or a batch was not delivered.

    Attributes:
        code: AWS's error code, in the error output and the log.
        message: AWS's sentence, in the error output.
        is_retryable: whether another try may succeed.
        is_dropped: whether the error output leaves it out (AWS's rule for a batch that an endpoint found too large).
    """

    code: str
    message: str
    is_retryable: bool = True
    is_dropped: bool = False
