"""GetCredentials: a database user and a temporary password for the caller, for psql and drivers."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import redshift_serverless as shapes
from headrace.core.values import moment
from headrace.services.redshift_serverless.backend import RedshiftServerless
from headrace.services.redshift_serverless.errors import invalid, not_built
from headrace.services.redshift_serverless.limits import LOGIN_SECONDS, MOST_LOGIN_SECONDS


@operation("GetCredentials")
def get_credentials(
    serverless: RedshiftServerless, call: Call, request: shapes.GetCredentialsRequest
) -> shapes.GetCredentialsResponse:
    """Return the user `IAM:name` or `IAMR:name` and its password; wait for the server. Source: API_GetCredentials."""
    if "customDomainName" in request:
        raise not_built("custom domain names")
    if "workgroupName" not in request:
        raise invalid("Either workgroupName or customDomainName must be provided.")
    seconds = request.get("durationSeconds", LOGIN_SECONDS)
    if not LOGIN_SECONDS <= seconds <= MOST_LOGIN_SECONDS:
        raise invalid(f"durationSeconds must be between {LOGIN_SECONDS} and {MOST_LOGIN_SECONDS}.")
    until_ms = call.now_ms + seconds * 1000
    user, password = serverless.issue_login(call, request["workgroupName"], until_ms=until_ms)
    end = moment(until_ms)
    return {"dbUser": user, "dbPassword": password, "expiration": end, "nextRefreshTime": end}
