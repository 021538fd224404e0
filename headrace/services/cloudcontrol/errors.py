"""Cloud Control's errors and limits. AWS documents the codes; the sentences are assumed unless marked observed."""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError
from headrace.core.ports.control import ResourceRefused

# Documented: API_ListResourceRequests and API_ListResources, MaxResults ("The default is 20", "100").
REQUESTS_PER_PAGE = 20
RESOURCES_PER_PAGE = 100
# Documented: AWS keeps requests for seven days after they were made (resource-operations-manage-requests).
KEPT_MS = 7 * 24 * 3600 * 1000
# headrace's own limit: how many operations run at a time.
AT_ONCE = 4


def type_not_found(kind: str) -> AwsError:
    """No such type. The sentence is observed (answers that users have published)."""
    return AwsError("TypeNotFoundException", f"The type '{kind}' cannot be found.", 400)


def build_unsupported_action(kind: str, action: str) -> AwsError:
    """A type that exists but does not support the action in Cloud Control."""
    return AwsError(
        "UnsupportedActionException", f"Resource type {kind} does not support {action} action", 400
    )


def not_found(kind: str, identifier: str, token: str) -> AwsError:
    """No such resource. The sentence is observed (handlers' answers that users have published)."""
    return AwsError(
        "ResourceNotFoundException",
        f"{kind} Handler returned status FAILED: Resource of type '{kind}' with identifier '{identifier}' was not"
        f" found. (HandlerErrorCode: NotFound, RequestToken: {token})",
        400,
    )


def invalid(message: str) -> AwsError:
    """A malformed request."""
    return AwsError("InvalidRequestException", message, 400)


def token_not_found(token: str) -> AwsError:
    """No such request."""
    return AwsError(
        "RequestTokenNotFoundException", f"Request with token {token} was not found", 400
    )


def token_conflict(token: str) -> AwsError:
    """A client token that a different request has used."""
    return AwsError(
        "ClientTokenConflictException",
        f"The ClientToken {token} was already used with other parameters",
        400,
    )


def concurrent(kind: str, identifier: str) -> AwsError:
    """Another operation on the resource is in progress."""
    return AwsError(
        "ConcurrentOperationException",
        f"Another operation on the resource {identifier} of type {kind} is in progress",
        400,
    )


def already_ended(token: str) -> AwsError:
    """A request that has ended and cannot be cancelled."""
    return AwsError(
        "ConcurrentModificationException", f"Request with token {token} has already ended", 400
    )


def translate(error: Exception) -> AwsError | None:
    """Return the AWS error for a domain error."""
    return invalid(str(error)) if isinstance(error, ResourceRefused) else None
