"""The Redshift Data API's errors. Sentences not marked were observed by others in AWS's answers."""

from __future__ import annotations

from headrace.aws.errors import AwsError
from headrace.core.warehouse import WarehouseError, WarehouseNotFound, WarehouseUnavailable


def invalid(message: str) -> AwsError:
    """An argument that is refused."""
    return AwsError("ValidationException", message, 400)


def no_endpoint() -> AwsError:
    """No such cluster or workgroup."""
    return invalid("Redshift endpoint doesn't exist in this region.")


def no_target() -> AwsError:
    """Neither a cluster nor a workgroup is named."""
    return invalid("Either ClusterIdentifier, WorkgroupName or SessionId must be provided.")


def not_found(statement_id: str) -> AwsError:
    """No such statement. The code is assumed."""
    return AwsError(
        "ResourceNotFoundException", "Query does not exist.", 400, {"ResourceId": statement_id}
    )


def no_result(statement_id: str) -> AwsError:
    """A statement without a result, or whose result is not there yet."""
    return AwsError(
        "ResourceNotFoundException",
        "Query does not have result. Please check query status with DescribeStatement.",
        400,
        {"ResourceId": statement_id},
    )


def too_many_statements(quota: int) -> AwsError:
    """More statements are active on a cluster or a workgroup than AWS takes."""
    return AwsError(
        "ActiveStatementsExceededException",
        f"Active statements exceeded the allowed quota ({quota}).",
        400,
    )


def too_many_sessions(quota: int) -> AwsError:
    """More sessions are open than AWS takes. The sentence is assumed, after that of statements."""
    return AwsError(
        "ActiveSessionsExceededException",
        f"Active sessions exceeded the allowed quota ({quota}).",
        400,
    )


def translate(error: Exception) -> AwsError | None:
    """Turn a domain error into AWS's."""
    match error:
        case WarehouseNotFound():
            return no_endpoint()
        case WarehouseUnavailable():
            return invalid(str(error))
        case WarehouseError():
            return AwsError("DatabaseConnectionException", str(error), 500)
        case _:
            return None
