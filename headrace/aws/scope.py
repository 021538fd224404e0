"""Reads who signed a request: the access key, region and service in its credential. Nothing is verified here."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from urllib.parse import unquote

from headrace.aws import sigv2
from headrace.aws.http import HttpRequest
from headrace.core.arn import is_account_id


@dataclass(frozen=True, slots=True)
class Scope:
    """Who signed: the parts of a request's credential scope, empty where there is none."""

    access_key: str = ""
    region: str = ""
    service: str = ""


@functools.lru_cache(maxsize=1024)
def _parse_scope(credential: str) -> Scope:
    parts = credential.split("/")
    if len(parts) != 5:
        return Scope()
    return Scope(parts[0], parts[2], parts[3])


def scope_of(request: HttpRequest) -> Scope:
    """Return the credential scope from the Authorization header or a presigned query."""
    authorization = request.headers.get("authorization", "")
    _, found, rest = authorization.partition("Credential=")
    if found:
        return _parse_scope(rest.partition(",")[0].strip())
    if "X-Amz-Credential=" in request.query:
        return _parse_scope(unquote(request.query_params().get("X-Amz-Credential", "")))
    if authorization.startswith("AWS ") or "AWSAccessKeyId=" in request.query:
        return Scope(service=sigv2.SERVICE)
    return Scope()


def whole_credential(credential: str) -> tuple[str, str, str, str] | None:
    """Return the access key, date, region and service in a credential; None when it is not whole."""
    parts = credential.split("/")
    if len(parts) != 5 or parts[4] != "aws4_request" or not parts[0]:
        return None
    return parts[0], parts[1], parts[2], parts[3]


def signing_account(request: HttpRequest, own: str) -> str:
    """Return the account that signed a request to a function's or an API's address; empty without a signature.

    With `--auth` the signature has been verified before. A key that is no account id is one of the account `own`.
    """
    if request.call is not None:
        return request.call.account
    key = scope_of(request).access_key
    if not key:
        return ""
    return key if is_account_id(key) else own
