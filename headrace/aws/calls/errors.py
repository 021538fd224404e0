"""`AwsError`, the one error that an operation raises to its caller; errors that all services share.

`FaultErrors` are the errors that injected faults answer with; each service declares its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Code, sentence and HTTP status; the sentences are AWS's where it has one. They may contain {stream}, {shard},
# {account}.
ErrorForm = tuple[str, str, int]
# Words of the codes by which services say that they are too busy.
_BUSY = ("Throttl", "TooManyRequests", "ThroughputExceeded", "RequestLimitExceeded", "SlowDown")


@dataclass(frozen=True, slots=True)
class FaultErrors:
    """The errors of one service.

    Attributes:
        throttle: the error for too many requests.
        throttled_actions: the throttling errors of single operations, by the operation's name.
        error: the error of a failed service.
        callers_errors_are_400: whether every client error has status 400.
    """

    throttle: ErrorForm = ("ThrottlingException", "Rate exceeded", 400)
    throttled_actions: Mapping[str, ErrorForm] = field(default_factory=dict[str, ErrorForm])
    error: ErrorForm = ("InternalFailure", "Internal service failure.", 500)
    callers_errors_are_400: bool = False


class AwsError(Exception):
    """An error as AWS's answers carry it.

    Attributes:
        code: AWS's error code, such as `ResourceNotFoundException`.
        message: AWS's sentence.
        status: the HTTP status.
        members: further members of the error's shape.
    """

    def __init__(
        self,
        code: str,
        message: str,
        status: int = 400,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        self.members: dict[str, Any] = dict(members or {})

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later: the service failed or was too busy, and refused nothing."""
        # 501 is what headrace does not simulate: that stays so.
        is_failure = self.status >= 500 and self.status != 501
        return is_failure or any(word in self.code for word in _BUSY)


def serialization_error(message: str = "") -> AwsError:
    """The body breaks the protocol: bad JSON, or a member of the wrong type."""
    return AwsError("SerializationException", message, 400)


def validation_error(message: str) -> AwsError:
    """A member breaks a constraint; see `headrace.aws.protocols.validate` for AWS's sentences."""
    return AwsError("ValidationException", message, 400)


def unknown_operation(operation: str, service: str, instead: str = "") -> AwsError:
    """The service has no such operation, or headrace owns the service and does not implement the operation.

    `instead` says what to do.
    """
    return AwsError(
        "UnknownOperationException",
        f"headrace does not implement {service}:{operation}{instead and f': {instead}'}",
        400,
    )


def internal_failure() -> AwsError:
    """A defect of headrace; the log has the traceback."""
    return AwsError(
        "InternalFailure", "The request processing has failed because of an unknown error", 500
    )


def build_malformed_xml() -> AwsError:
    """A body that is not XML, or not the XML that the operation takes."""
    return AwsError(
        "MalformedXML",
        "The XML you provided was not well-formed or did not validate against our published schema",
    )
