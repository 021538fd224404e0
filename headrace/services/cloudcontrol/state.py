"""Cloud Control's records: requests, and the resources that they changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.aws.shapes.cloudcontrol import ProgressEvent
from headrace.core.values import moment, present

IN_PROGRESS, SUCCESS, FAILED = "IN_PROGRESS", "SUCCESS", "FAILED"
CANCELLING, CANCELLED = "CANCEL_IN_PROGRESS", "CANCEL_COMPLETE"
RUNNING = (IN_PROGRESS, CANCELLING)


@dataclass(slots=True)
class Request:
    """One request for a change. A later request with its client token must have the same `asked`.

    Attributes:
        operation: `CREATE`, `UPDATE` or `DELETE`.
        began_ms, changed_ms: when it arrived, and when its status last changed.
        error_code: AWS's HandlerErrorCode, if it failed.
    """

    token: str
    account: str
    region: str
    kind: str
    operation: str
    asked: str
    began_ms: int
    changed_ms: int
    client_token: str = ""
    identifier: str = ""
    status: str = IN_PROGRESS
    model: str = ""
    message: str = ""
    error_code: str = ""

    def event(self) -> ProgressEvent:
        """Return the ProgressEvent."""
        return present(
            {
                "TypeName": self.kind,
                "RequestToken": self.token,
                "Operation": self.operation,
                "OperationStatus": self.status,
                "EventTime": moment(self.changed_ms),
                "Identifier": self.identifier or None,
                "ResourceModel": self.model or None,
                "StatusMessage": self.message or None,
                "ErrorCode": self.error_code or None,
            }
        )


@dataclass(slots=True)
class StoredResource:
    """A resource as Cloud Control last left it, whether a stack created it or not; `gone` if it was deleted."""

    account: str
    region: str
    kind: str
    identifier: str
    at_ms: int
    gone: bool = False
    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
