"""The tagging API's errors. AWS documents the codes; the sentences are assumed."""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError


def invalid_parameter(message: str) -> AwsError:
    """The request's parameters contradict each other or exceed a limit."""
    return AwsError("InvalidParameterException", message, 400)


def translate(error: Exception) -> AwsError | None:
    """Return None: this service raises AwsError itself."""
    return None
