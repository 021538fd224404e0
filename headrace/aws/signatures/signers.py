"""Who signed a request to a resource's own endpoint, which is a function's URL or an API's address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.aws.calls.permits import Permit


@dataclass(frozen=True, slots=True)
class Signer:
    """The caller of an endpoint, as events name it. `Gateway.admit` finds it.

    Attributes:
        access_key: the id of its key.
        account: its account.
        arn: a user's, a role's session's (`arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION`), or that of the root.
        user_id: as `aws:userid`: a user's id, `ROLE_ID:SESSION`, or the account.
        permit: checks its permissions; None for the account itself.
    """

    access_key: str
    account: str
    arn: str
    user_id: str
    permit: Permit | None = None

    @staticmethod
    def root(account: str, access_key: str = "") -> Signer:
        """Return the account itself as a caller; if it has no access key, its id stands for one."""
        return Signer(access_key or account, account, *name_of_root(account))

    def denial(self, action: str, resource: str, context: dict[str, tuple[str, ...]]) -> str:
        """Return AWS's sentence that refuses an action; empty when it is allowed. `context`: further condition keys."""
        return "" if self.permit is None else self.permit.denial(action, resource, context)


def name_of_root(account: str) -> tuple[str, str]:
    """Return the ARN and the unique id of an account itself."""
    return f"arn:aws:iam::{account}:root", account


def iam_context(signer: Signer) -> dict[str, Any]:
    """Return `requestContext.authorizer.iam` of the events of function URLs and HTTP APIs.

    Source: lambda/latest/dg/urls-invocation.html (documented).
    """
    return {
        "accessKey": signer.access_key,
        "accountId": signer.account,
        "callerId": signer.user_id,
        "cognitoIdentity": None,
        "principalOrgId": None,
        "userArn": signer.arn,
        "userId": signer.user_id,
    }
