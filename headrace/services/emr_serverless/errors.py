"""EMR Serverless' errors, with AWS's sentences."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.aws.calls.errors import AwsError
from headrace.core.system_tags import is_refused


def validation(message: str) -> AwsError:
    """An invalid request."""
    return AwsError("ValidationException", message, 400, {"message": message})


def not_found(what: str) -> AwsError:
    """No such application, job run or resource; `what` names it."""
    message = f"{what} does not exist"
    return AwsError("ResourceNotFoundException", message, 404, {"message": message})


def conflict(message: str) -> AwsError:
    """The request conflicts with an earlier one or with the resource's state."""
    return AwsError("ConflictException", message, 409, {"message": message})


def wrong_state(what: str, allowed: Iterable[str], state: str) -> AwsError:
    """The operation is not allowed in the resource's state."""
    states = ", ".join(allowed)
    return validation(
        f"{what} must be in one of the following statuses [{states}]. Current status: {state}"
    )


def check_tag_keys(keys: Iterable[str]) -> None:
    """Refuse to set or remove tags with AWS's prefix; the sentence is assumed. Raises AwsError."""
    if any(map(is_refused, keys)):
        raise validation("aws: prefixed tag key names are not allowed for external use.")


def translate(error: Exception) -> AwsError | None:
    """Return None: this service raises AwsError itself."""
    return None
