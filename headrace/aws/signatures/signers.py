"""Reads the credential and the account from a request's signature, without verifying it."""

from __future__ import annotations

from headrace.aws.calls.http import HttpRequest
from headrace.aws.signatures.service_names import scope_of
from headrace.core.arn import is_account_id


def whole_credential(credential: str) -> tuple[str, str, str, str] | None:
    """Return the access key, date, region and service of a credential; None when a part is missing."""
    parts = credential.split("/")
    if len(parts) != 5 or parts[4] != "aws4_request" or not parts[0]:
        return None
    return parts[0], parts[1], parts[2], parts[3]


def signing_account(request: HttpRequest, own: str) -> str:
    """Return the account that signed a request to a function's or an API's address; empty without a signature.

    With `--auth` the signature has been verified before. A key that is not an account id belongs to the account `own`.
    """
    if request.call is not None:
        return request.call.account
    key = scope_of(request).access_key
    if not key:
        return ""
    return key if is_account_id(key) else own
