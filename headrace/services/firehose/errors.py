"""Firehose's errors in AWS's words."""

from __future__ import annotations

from headrace.aws.errors import AwsError
from headrace.store.shard_log import LogFull


def not_found(name: str, account: str) -> AwsError:
    """No delivery stream of that name."""
    return AwsError(
        "ResourceNotFoundException", f"Firehose {name} under account {account} not found."
    )


def in_use(name: str, account: str) -> AwsError:
    """There is one of that name."""
    return AwsError(
        "ResourceInUseException", f"Firehose {name} under accountId {account} already exists"
    )


def invalid(message: str) -> AwsError:
    """An argument that Firehose refuses."""
    return AwsError("InvalidArgumentException", message)


def not_built(what: str) -> AwsError:
    """Something AWS does and headrace does not: said loudly, not accepted and dropped."""
    return invalid(f"headrace does not support {what} yet.")


def translate(error: Exception) -> AwsError | None:
    """Turn a domain error into AWS's."""
    if isinstance(error, LogFull):
        return AwsError(
            "ServiceUnavailableException", f"The record could not be stored: {error}", 503
        )
    if isinstance(error, OSError):
        return AwsError("ServiceUnavailableException", f"Nothing was stored: {error.strerror}", 503)
    return None
