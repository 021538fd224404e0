"""Reads identities from OpenID Connect tokens and SAML assertions, as STS takes them.

Their signatures are not verified: a cloud on a laptop does not reach the providers. All else is as on AWS: IAM must
have the provider, with the audience as its client, the token must be valid now, and the trust policy decides by the
identity's condition keys.
Sources: IAM/latest/UserGuide/reference_policies_iam-condition-keys.html, STS/latest/APIReference of both operations,
configuring-saml assertions: id_roles_providers_create_saml_assertions.html. Sentences: as users report them
(github.com/aws-actions/configure-aws-credentials/issues/280, awslabs/amazon-eks-irsa-cfn/pull/18).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast
from xml.parsers.expat import ExpatError

from headrace.aws.calls.errors import AwsError
from headrace.moto import principals
from headrace.permissions.decisions.identity import WEB_PROVIDERS

Keys = dict[str, tuple[str, ...]]
_INVALID = "InvalidIdentityToken"
_NO_JWT = (
    "The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)"
)
_ROLE = "https://aws.amazon.com/SAML/Attributes/Role"
_SESSION_NAME = "https://aws.amazon.com/SAML/Attributes/RoleSessionName"
_DURATION = "https://aws.amazon.com/SAML/Attributes/SessionDuration"
_SOURCE_IDENTITY = "https://aws.amazon.com/SAML/Attributes/SourceIdentity"


@dataclass(frozen=True, slots=True)
class ConfirmedIdentity:
    """An identity that a provider confirms.

    Attributes:
        provider: the Federated principal of a trust policy: an ARN, or `accounts.google.com`.
        keys: the condition keys for the trust policy and the session's calls, in lower case.
        shown: members of STS's answer.
        problem: why STS refuses it whatever the trust policy says; None if it does not.
        session_name, duration_s, source_identity: from a SAML assertion.
    """

    provider: str
    keys: Keys = field(default_factory=dict[str, tuple[str, ...]])
    shown: Mapping[str, Any] = field(default_factory=dict[str, Any])
    problem: AwsError | None = None
    session_name: str = ""
    duration_s: int = 0
    source_identity: str = ""


# --- OpenID Connect -------------------------------------------------------------------------------


def identity_of_token(token: str, account: str, now_ms: int) -> ConfirmedIdentity:
    """Return the identity in a web identity token, for a role in an account. moto must be loaded."""
    claims = _claims(token)
    if claims is None:
        return ConfirmedIdentity("", problem=AwsError(_INVALID, _NO_JWT))
    issuer = str(claims.get("iss") or "")
    host = issuer.removeprefix("https://").rstrip("/")
    audiences = _texts(claims.get("aud"))
    provider_found = _provider(account, host)
    keys: Keys = {f"{host}:sub": _texts(claims.get("sub")), f"{host}:aud": audiences}
    if claims.get("azp"):
        keys |= {f"{host}:aud": _texts(claims["azp"]), f"{host}:oaud": audiences}
    if claims.get("amr"):
        keys[f"{host}:amr"] = _texts(claims["amr"])
    provider = (
        host if host in WEB_PROVIDERS else "" if provider_found is None else str(provider_found.arn)
    )
    shown = {
        "SubjectFromWebIdentityToken": str(claims.get("sub") or ""),
        "Provider": issuer,
        "Audience": next(iter(audiences), ""),
    }
    lowered = {name.lower(): values for name, values in keys.items() if values}
    problem = _problem(claims, issuer, audiences, provider_found, provider, now_ms)
    return ConfirmedIdentity(provider, lowered, shown, problem)


def _problem(
    claims: Mapping[str, Any],
    issuer: str,
    audiences: tuple[str, ...],
    provider_known: Any,
    provider: str,
    now_ms: int,
) -> AwsError | None:
    if not provider:
        return AwsError(_INVALID, f"No OpenIDConnect provider found in your account for {issuer}")
    if provider_known is not None and not set(audiences) & set(
        map(str, provider_known.client_id_list or ())
    ):
        return AwsError(_INVALID, "Incorrect token audience")
    expires: Any = claims.get("exp")
    if isinstance(expires, int | float) and expires * 1000 <= now_ms:
        times = (
            f"current date/time {now_ms // 1000} must be before the expiration date/time {expires}"
        )
        sentence = f"Token expired: {times}"
        return AwsError("ExpiredTokenException", sentence)
    return None


def _claims(token: str) -> dict[str, Any] | None:
    """Return the claims of a JSON web token; None for another text."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims: Any = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", claims) if isinstance(claims, dict) else None


def _provider(account: str, host: str) -> Any:
    backend = principals.backend_of(account)
    providers: Any = {} if backend is None else backend.open_id_providers
    return next((one for one in list(providers.values()) if str(one.url).rstrip("/") == host), None)


def _texts(value: Any) -> tuple[str, ...]:
    listed = (
        cast("list[Any]", value) if isinstance(value, list) else [] if value is None else [value]
    )
    return tuple(map(str, listed))


# --- SAML -----------------------------------------------------------------------------------------


def identity_of_assertion(
    encoded: str, role_arn: str, provider: str, now_ms: int
) -> ConfirmedIdentity:
    """Return the identity in a SAML response, for a role and an IAM provider. moto must be loaded."""
    broken = AwsError(_INVALID, "Invalid base64 SAMLResponse (Service: AWSOpenIdDiscoveryService)")
    try:
        parsed = _parse(base64.b64decode(encoded, validate=False))
    except (binascii.Error, ValueError, KeyError, TypeError):
        return ConfirmedIdentity("", problem=broken)
    try:
        return _of_parsed(parsed, role_arn, provider, now_ms)
    except (KeyError, TypeError, ValueError, AttributeError):
        return ConfirmedIdentity("", problem=broken)


def _of_parsed(response: Any, role_arn: str, provider: str, now_ms: int) -> ConfirmedIdentity:
    assertion = response["saml|Assertion"]
    attributes = dict(_attributes(assertion))
    name_id = assertion["saml|Subject"]["saml|NameID"]
    kind = str(name_id.get("@Format") or "persistent").rpartition(":")[2]
    confirmation = assertion["saml|Subject"]["saml|SubjectConfirmation"]
    recipient = str(confirmation["saml|SubjectConfirmationData"].get("@Recipient") or "")
    issuer, subject = _text(assertion["saml|Issuer"]), _text(name_id)
    account, name = provider.split(":")[4], provider.rpartition("/")[2]
    # reference_policies_iam-condition-keys.html, saml:namequalifier
    qualifier = base64.b64encode(
        hashlib.sha1(f"{issuer}{account}/{name}".encode(), usedforsecurity=False).digest()
    ).decode()
    condition_values = {
        "saml:aud": recipient,
        "saml:iss": issuer,
        "saml:sub": subject,
        "saml:sub_type": kind,
        "saml:namequalifier": qualifier,
        "saml:doc": f"{account}/{name}",
    }
    shown = {
        "Subject": subject,
        "SubjectType": kind,
        "Issuer": issuer,
        "Audience": recipient,
        "NameQualifier": qualifier,
    }
    return ConfirmedIdentity(
        provider,
        {key: (value,) for key, value in condition_values.items() if value},
        shown,
        _problem_of_assertion(assertion, attributes, role_arn, provider, now_ms),
        next(iter(attributes.get(_SESSION_NAME, ())), ""),
        int(next(iter(attributes.get(_DURATION, ())), "0")),
        next(iter(attributes.get(_SOURCE_IDENTITY, ())), ""),
    )


def _problem_of_assertion(
    assertion: Any,
    attributes: Mapping[str, tuple[str, ...]],
    role_arn: str,
    provider: str,
    now_ms: int,
) -> AwsError | None:
    """Return why STS refuses an assertion. The sentences are assumed, except that of an expired one."""
    backend = principals.backend_of(provider.split(":")[4])
    providers: Any = {} if backend is None else backend.saml_providers
    if provider not in {str(one.arn) for one in list(providers.values())}:
        return AwsError(_INVALID, f"Specified provider doesn't exist: {provider}")
    pairs = [{part.strip() for part in one.split(",")} for one in attributes.get(_ROLE, ())]
    if {role_arn, provider} not in pairs:
        return AwsError("AccessDenied", "Not authorized to perform sts:AssumeRoleWithSAML", 403)
    if not attributes.get(_SESSION_NAME):
        return AwsError(_INVALID, "RoleSessionName is required in AuthnResponse")
    conditions: Any = assertion.get("saml|Conditions") or {}
    ends = conditions.get("@NotOnOrAfter")
    if ends and datetime.fromisoformat(str(ends)).timestamp() * 1000 <= now_ms:
        sentence = "Token must be redeemed within 5 minutes of issuance"
        return AwsError("ExpiredTokenException", sentence)
    return None


def _parse(text: bytes) -> Any:
    import xmltodict  # moto depends on it, to parse assertions

    names = {
        "urn:oasis:names:tc:SAML:2.0:protocol": "samlp",
        "urn:oasis:names:tc:SAML:2.0:assertion": "saml",
    }
    try:
        parsed: Any = xmltodict.parse(
            text.decode(),
            force_cdata=True,
            process_namespaces=True,
            namespaces=names,
            namespace_separator="|",
        )
    except ExpatError as error:
        raise ValueError(str(error)) from None
    return parsed["samlp|Response"]


def _attributes(assertion: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the values of each attribute."""
    for one in _as_list(assertion["saml|AttributeStatement"]["saml|Attribute"]):
        yield str(one["@Name"]), tuple(map(_text, _as_list(one["saml|AttributeValue"])))


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _text(element: Any) -> str:
    return str(element["#text"] if isinstance(element, dict) else element)
