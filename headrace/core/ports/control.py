"""Ports to call any operation of this cloud by its name, and to get the credentials of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from headrace.core.ports.permissions import CallerIdentity


class ControlPlane(Protocol):
    """Any AWS operation of any service in this cloud, by name, in process."""

    def call(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        account: str | None = None,
        region: str | None = None,
        acting: CallerIdentity | None = None,
    ) -> dict[str, Any]:
        """Run an operation as boto3 would name it (`"lambda"`, `"CreateFunction"`).

        Without `acting` the cloud itself is the caller, which may do everything. Blobs are bytes (a streaming body
        comes back as bytes), timestamps aware datetimes.
        Raises headrace.aws.calls.errors.AwsError.
        """
        ...


FidelityLevel = Literal["enforced", "stored", "ignored"]


class JobCredentials(Protocol):
    """Gives Spark jobs the credentials with which they sign requests."""

    def __call__(
        self,
        account: str,
        role: str,
        session: str,
        policy: str = "",
        policy_arns: tuple[str, ...] = (),
    ) -> Mapping[str, str]:
        """Return the environment variables of a job's credentials, as a session of its role.

        `role` is a role's ARN, or the name or ARN of an instance profile; without one the credentials are the account's
        own. `policy` (a document) and `policy_arns` (managed policies) are session policies, which limit the role.
        """
        ...


def any_credentials(
    account: str, role: str, session: str, policy: str = "", policy_arns: tuple[str, ...] = ()
) -> Mapping[str, str]:
    """Return credentials of an account; the `JobCredentials` of services that are built without a cloud."""
    return {"AWS_ACCESS_KEY_ID": account, "AWS_SECRET_ACCESS_KEY": "headrace"}
