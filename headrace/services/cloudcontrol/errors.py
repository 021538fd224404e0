"""Cloud Control's errors. AWS documents the codes; the sentences are observed where it is said, else assumed."""

from __future__ import annotations

from headrace.aws.errors import AwsError
from headrace.core.resource_types import ResourceRefused


def type_not_found(kind: str) -> AwsError:
    """No such type. The sentence is observed (answers to a wrong type that users have shown)."""
    return AwsError("TypeNotFoundException", f"The type '{kind}' cannot be found.", 400)


def unsupported(kind: str, action: str) -> AwsError:
    """A type that is there, and that Cloud Control cannot work with."""
    return AwsError(
        "UnsupportedActionException", f"Resource type {kind} does not support {action} action", 400
    )


def not_found(kind: str, identifier: str, token: str) -> AwsError:
    """No such resource. The sentence is observed (answers of handlers that users have shown)."""
    return AwsError(
        "ResourceNotFoundException",
        f"{kind} Handler returned status FAILED: Resource of type '{kind}' with identifier '{identifier}' was not"
        f" found. (HandlerErrorCode: NotFound, RequestToken: {token})",
        400,
    )


def invalid(message: str) -> AwsError:
    """A request of a wrong form."""
    return AwsError("InvalidRequestException", message, 400)


def token_not_found(token: str) -> AwsError:
    """No such request."""
    return AwsError(
        "RequestTokenNotFoundException", f"Request with token {token} was not found", 400
    )


def token_conflict(token: str) -> AwsError:
    """A client token that another request has used."""
    return AwsError(
        "ClientTokenConflictException",
        f"The ClientToken {token} was already used with other parameters",
        400,
    )


def concurrent(kind: str, identifier: str) -> AwsError:
    """Another operation on the resource is under way."""
    return AwsError(
        "ConcurrentOperationException",
        f"Another operation on the resource {identifier} of type {kind} is in progress",
        400,
    )


def ended(token: str) -> AwsError:
    """A request that can no longer be cancelled."""
    return AwsError(
        "ConcurrentModificationException", f"Request with token {token} has already ended", 400
    )


def translate(error: Exception) -> AwsError | None:
    """Turn a domain error into AWS's."""
    return invalid(str(error)) if isinstance(error, ResourceRefused) else None
