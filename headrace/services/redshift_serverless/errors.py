"""Redshift Serverless' errors. The codes are the model's, the sentences are assumed.

Quotas and defaults of Redshift Serverless.

Source: docs.aws.amazon.com/redshift/latest/mgmt/amazon-redshift-limits.html and the model's texts (documented).
"""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError
from headrace.core.ports.warehouses import WarehouseError, WarehouseUnavailable

PORT = 5439
BASE_CAPACITY = 128
PAGE = 100
DATABASE = "dev"
ADMIN = "admin"
# durationSeconds of GetCredentials (API_GetCredentials, documented).
LOGIN_SECONDS = 900
MOST_LOGIN_SECONDS = 3600
# docs.aws.amazon.com/redshift/latest/mgmt/amazon-redshift-tagging.html (documented).
TAGS = 50


def invalid(message: str) -> AwsError:
    """An invalid argument."""
    return AwsError("ValidationException", message, 400)


def conflict(message: str) -> AwsError:
    """A name is taken, or another resource still uses this one."""
    return AwsError("ConflictException", message, 400)


def not_found(kind: str, name: str) -> AwsError:
    """No such namespace or workgroup."""
    return AwsError(
        "ResourceNotFoundException",
        f"The {kind} {name} was not found.",
        400,
        {"resourceName": name},
    )


def not_built(what: str) -> AwsError:
    """A feature of AWS that headrace does not have."""
    return invalid(f"headrace does not support {what} of Redshift Serverless yet.")


def too_many_tags() -> AwsError:
    """A resource would have more tags than AWS allows."""
    return AwsError("TooManyTagsException", f"A resource can have at most {TAGS} tags.", 400)


def translate(error: Exception) -> AwsError | None:
    """Return the AWS error for a domain error."""
    match error:
        case WarehouseUnavailable():
            return invalid(str(error))
        case WarehouseError():
            return AwsError("InternalServerException", str(error), 500)
        case _:
            return None
