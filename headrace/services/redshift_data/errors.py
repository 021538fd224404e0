"""The Redshift Data API's errors, from published answers of AWS unless marked otherwise, and its quotas.

Source of the quotas: docs.aws.amazon.com/redshift/latest/mgmt/data-api.html (documented).
"""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError
from headrace.core.ports.warehouses import WarehouseError, WarehouseNotFound, WarehouseUnavailable

# How long AWS keeps a statement and its result.
KEPT_MS = 24 * 3600 * 1000
# Statements of a cluster or a workgroup that are submitted, picked or started.
ACTIVE_STATEMENTS = 500
# How many of those run at a time: headrace's PostgreSQL accepts 60 connections, and psql and COPY need some.
RUNNING_STATEMENTS = 30
# Open sessions of an account in a region. The quota is documented (ActiveSessionsExceededException), its size assumed.
ACTIVE_SESSIONS = 500
STATEMENT_BYTES = 100 * 1024
# AWS allows 500 MB; headrace's state database keeps a fifth of that.
RESULT_BYTES = 100 * 1024 * 1024
# A page of AWS's has up to 100 MB.
ROWS_PER_PAGE = 1000
STATEMENTS_PER_PAGE = 100
NAMES_PER_PAGE = 1000


def invalid(message: str) -> AwsError:
    """An invalid argument."""
    return AwsError("ValidationException", message, 400)


def no_endpoint() -> AwsError:
    """No such cluster or workgroup."""
    return invalid("Redshift endpoint doesn't exist in this region.")


def no_target() -> AwsError:
    """The request names neither a cluster nor a workgroup."""
    return invalid("Either ClusterIdentifier, WorkgroupName or SessionId must be provided.")


def not_found(statement_id: str) -> AwsError:
    """No such statement. The code is assumed."""
    return AwsError(
        "ResourceNotFoundException", "Query does not exist.", 400, {"ResourceId": statement_id}
    )


def no_result(statement_id: str) -> AwsError:
    """A statement that has no result, or none yet."""
    return AwsError(
        "ResourceNotFoundException",
        "Query does not have result. Please check query status with DescribeStatement.",
        400,
        {"ResourceId": statement_id},
    )


def too_many_statements(quota: int) -> AwsError:
    """Too many active statements on a cluster or a workgroup."""
    return AwsError(
        "ActiveStatementsExceededException",
        f"Active statements exceeded the allowed quota ({quota}).",
        400,
    )


def too_many_sessions(quota: int) -> AwsError:
    """Too many open sessions. The sentence is assumed, modelled on the one for statements."""
    return AwsError(
        "ActiveSessionsExceededException",
        f"Active sessions exceeded the allowed quota ({quota}).",
        400,
    )


def translate(error: Exception) -> AwsError | None:
    """Return the AWS error for a domain error."""
    match error:
        case WarehouseNotFound():
            return no_endpoint()
        case WarehouseUnavailable():
            return invalid(str(error))
        case WarehouseError():
            return AwsError("DatabaseConnectionException", str(error), 500)
        case _:
            return None
