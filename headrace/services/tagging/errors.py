"""The tagging API's errors. AWS documents the codes; the sentences are assumed."""

from __future__ import annotations

from headrace.aws.errors import AwsError


def invalid_parameter(message: str) -> AwsError:
    """A request that contradicts itself or goes beyond a bound."""
    return AwsError("InvalidParameterException", message, 400)


def translate(error: Exception) -> AwsError | None:
    """Turn a domain error into AWS's: all are raised as AWS's already."""
    return None
