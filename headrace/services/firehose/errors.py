"""Firehose's errors, with AWS's codes and sentences."""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError
from headrace.store.shard_log import LogFull


def not_found(name: str, account: str) -> AwsError:
    """No delivery stream of that name exists."""
    return AwsError(
        "ResourceNotFoundException", f"Firehose {name} under account {account} not found."
    )


def in_use(name: str, account: str) -> AwsError:
    """A delivery stream of that name already exists."""
    return AwsError(
        "ResourceInUseException", f"Firehose {name} under accountId {account} already exists"
    )


def invalid_source() -> AwsError:
    """Only CloudWatch Logs may put to a stream that decompresses logs. Source: API_PutRecord (documented)."""
    return AwsError(
        "InvalidSourceException",
        "Only requests from CloudWatch Logs are supported when CloudWatch Logs decompression is enabled.",
    )


def busy(name: str, account: str, status: str) -> AwsError:
    """A delivery stream that is being created or deleted cannot be changed."""
    return AwsError(
        "ResourceInUseException",
        f"Firehose {name} under accountId {account} is not ACTIVE: it is {status}",
    )


def invalid(message: str) -> AwsError:
    """An invalid argument."""
    return AwsError("InvalidArgumentException", message)


def backup_stays() -> AwsError:
    """The backup of all records cannot be disabled.

    Observed by others: github.com/awsdocs/amazon-kinesis-data-firehose-developer-guide/issues/11 (Splunk, 2020).
    """
    return invalid("Disabling S3 backup is not currently supported.")


def not_built(what: str) -> AwsError:
    """A feature of AWS that headrace does not have; it is refused rather than ignored."""
    return invalid(f"headrace does not support {what} yet.")


def translate(error: Exception) -> AwsError | None:
    """Return AWS's error for a full journal or a failed disk; None for any other error."""
    if isinstance(error, LogFull):
        return AwsError(
            "ServiceUnavailableException", f"The record could not be stored: {error}", 503
        )
    if isinstance(error, OSError):
        return AwsError("ServiceUnavailableException", f"Nothing was stored: {error.strerror}", 503)
    return None
