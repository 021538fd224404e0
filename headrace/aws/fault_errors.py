"""The errors that faults on demand answer with, as each service declares its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Code, sentence and HTTP status; the sentences are AWS's where it says one. They may name {stream}, {shard}, {account}.
ErrorForm = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class FaultErrors:
    """The errors of one service.

    Attributes:
        throttle: says that there are too many requests.
        throttled_actions: the same of single operations, by their names.
        error: says that the service failed.
        callers_errors_are_400: whether every error that is the caller's has status 400.
    """

    throttle: ErrorForm = ("ThrottlingException", "Rate exceeded", 400)
    throttled_actions: Mapping[str, ErrorForm] = field(default_factory=dict[str, ErrorForm])
    error: ErrorForm = ("InternalFailure", "Internal service failure.", 500)
    callers_errors_are_400: bool = False
