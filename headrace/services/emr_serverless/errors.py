"""EMR Serverless' errors in AWS's words."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.aws.errors import AwsError
from headrace.core.system_tags import is_refused


def validation(message: str) -> AwsError:
    """A request that cannot be carried out as it is."""
    return AwsError("ValidationException", message, 400, {"message": message})


def not_found(what: str) -> AwsError:
    """No such application, job run or resource; `what` names it."""
    message = f"{what} does not exist"
    return AwsError("ResourceNotFoundException", message, 404, {"message": message})


def conflict(message: str) -> AwsError:
    """The request contradicts an earlier one or the resource's state."""
    return AwsError("ConflictException", message, 409, {"message": message})


def wrong_state(what: str, wanted: Iterable[str], state: str) -> AwsError:
    """The resource is in none of the states that the operation needs."""
    states = ", ".join(wanted)
    return validation(
        f"{what} must be in one of the following statuses [{states}]. Current status: {state}"
    )


def check_tag_keys(keys: Iterable[str]) -> None:
    """Refuse to set or remove tags that are AWS's own; the words are assumed. Raises AwsError."""
    if any(map(is_refused, keys)):
        raise validation("aws: prefixed tag key names are not allowed for external use.")


def translate(error: Exception) -> AwsError | None:
    """Turn a domain error into AWS's: all of EMR Serverless' are raised as AWS's already."""
    return None
