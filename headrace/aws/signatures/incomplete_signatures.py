"""Refuses requests with incomplete signatures, as AWS does before it looks up the key; also without `--auth`.

Without `--auth`, local clients need not sign: a request may have no Authorization header, or one that only names a
Credential (account, region and service). A date is required with `--auth` only. Source: kinesalite's
test/connection.js, whose author compared it with Kinesis (observed).
"""

from __future__ import annotations

from headrace.aws.calls.http import HttpRequest
from headrace.aws.signatures import presigned
from headrace.aws.signatures.auth_errors import S3, Wording
from headrace.aws.signatures.credential_scopes import NoPair, components_of, parameters_of, scope_of

_COMPONENTS = ("Credential", "Signature", "SignedHeaders")


def header_components(authorization: str, wording: Wording, *, has_time: bool) -> dict[str, str]:
    """Return the components of a Version 4 Authorization header, by name. Raises AwsError when it is malformed."""
    rest = authorization.partition(" ")[2]
    if wording is S3:
        _check_of_s3(rest)
    try:
        components = components_of(rest)
    except NoPair as error:
        raise wording.no_pair(str(error), authorization) from None
    missing = "".join(
        f"Authorization header requires '{name}' parameter. "
        for name in _COMPONENTS
        if not components.get(name)
    )
    if not has_time:
        missing += (
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
        )
    if missing:
        raise wording.incomplete(f"{missing}Authorization={authorization}")
    return components


def _check_of_s3(rest: str) -> None:
    """Refuse what is not exactly three components. Raises AwsError.

    Source of both sentences: S3's answers in ex-aws/ex_aws#537, TTLabs/EvaporateJS#353 and zendesk/apt-s3#10 (observed
    by others).
    """
    components = rest.split(",")
    for component in components:
        name, _, value = component.strip().partition("=")
        if name in _COMPONENTS and (not value or "=" in value or " " in value):
            raise S3.component(component)
    names = sorted(component.strip().partition("=")[0] for component in components)
    if names != sorted(_COMPONENTS):
        raise S3.three_components()


def is_incomplete(request: HttpRequest) -> bool:
    """Whether a request with a target claims to be signed, and may lack parts. Fast: it runs for every request."""
    headers = request.headers
    if "x-amz-target" not in headers:
        return False
    if not headers.get("authorization"):
        return "X-Amz-Algorithm" in request.query
    scope = scope_of(request)
    return not (scope.algorithm and scope.is_whole) or "X-Amz-Algorithm" in request.query


def check(request: HttpRequest, wording: Wording) -> None:
    """Refuse a half-signed request, as far as that applies without `--auth`. Raises AwsError."""
    headers = request.headers
    authorization = headers.get("authorization", "")
    parameters = parameters_of(request)
    if authorization and "X-Amz-Algorithm" in parameters:
        raise wording.both()
    if "X-Amz-Algorithm" in parameters:
        presigned.check_present(parameters, wording)
    elif authorization:
        try:
            components = components_of(authorization.partition(" ")[2])
        except NoPair as error:
            raise wording.no_pair(str(error), authorization) from None
        if list(components) == ["Credential"] or all(components.get(n) for n in _COMPONENTS):
            return
        has_time = "x-amz-date" in headers or "date" in headers
        header_components(authorization, wording, has_time=has_time)
