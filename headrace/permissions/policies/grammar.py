"""Refuses policies that AWS would refuse to store, with IAM's sentences. Pure functions.

Sources: docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html and reference_iam-quotas.html. The
sentences come from users' reports and from moto's tests, which have them from IAM; so does the order of the checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, cast

from headrace.core.arn import is_account_id
from headrace.core.values import parse_json
from headrace.permissions.policies.conditions import is_operator, split_operator

PolicyKind = Literal["identity", "trust", "resource", "key", "boundary", "session"]
Holder = Literal["policy", "role", "user", "group", "trust"]

_TOP = {"Version", "Id", "Statement"}
_ELEMENTS = {
    "Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition",
}  # fmt: skip
_VERSIONS = ("2008-10-17", "2012-10-17")
# The characters that a policy may contain beside the three white space characters (policy grammar, notes).
_OUTSIDE = re.compile("[^\u0009\u000a\u000d\u0020-\u00ff]")
_PARTITIONS = {
    "aws",
    "aws-cn",
    "aws-us-gov",
    "aws-iso",
    "aws-iso-b",
    "aws-iso-e",
    "aws-iso-f",
    "aws-eusc",
    "*",
}
_VENDOR = re.compile(r"[A-Za-z0-9.-]+")
_DATE = re.compile(
    r"(-?\d{1,9})(?:-(\d{1,2}))?(?:-(\d{1,2}))?"
    r"(?:t(?:(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.\d{1,9})?(?:z|[+-](\d\d)(?::\d\d)?)?)?)?)?)?"
)
_DOMAIN = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_UNIQUE_ID = re.compile(r"A[A-Z]{3}[A-Z0-9]{12,}")
_IAM_PATHS = (
    "user/", "federated-user/", "role/", "group/", "instance-profile/", "mfa/", "server-certificate/", "policy/",
    "sms-mfa/", "saml-provider/", "oidc-provider/", "report/", "access-report/",
)  # fmt: skip
_OF_TRUST = {
    "sts:AssumeRole", "sts:AssumeRoleWithSAML", "sts:AssumeRoleWithWebIdentity", "sts:TagSession",
    "sts:SetSourceIdentity", "sts:SetContext",
}  # fmt: skip
# The most characters, not counting white space, by the policy's holder; for inline policies in total
# (reference_iam-quotas).
MOST_CHARACTERS: dict[Holder, int] = {
    "policy": 6144, "role": 10240, "user": 2048, "group": 5120, "trust": 2048,
}  # fmt: skip
_SYNTAX = "Syntax errors in policy."
_NO_JSON = "This policy contains invalid Json"  # of trust policies, recorded in 2026
_NO_VENDOR = "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc."
_LEGACY = "The policy failed legacy parsing"
# terraform-aws-modules/terraform-aws-eks#1084: a provider's URL, with its scheme, before `:sub`.
_KEY_OF_COLONS = "Condition can contain only one colon."
# terraform-aws-modules/terraform-aws-eks#2594: a Federated principal that is empty, or no provider.
_FEDERATED = "Federated principals must be valid domain names or SAML metadata ARNs"


class PolicyError(Exception):
    """AWS refuses the policy: `code` and `message` are IAM's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def check_policy(text: str, kind: PolicyKind, *, is_managed: bool = True) -> None:
    """Refuse a text that is not a policy of its kind. Raises PolicyError MalformedPolicyDocument with IAM's sentence.

    A `key` policy is a resource policy whose statements may lack Action and Resource, as KMS accepts them.
    `is_managed` is False for an inline identity policy, which may have any version or none.
    """
    statements = _statements(text, _NO_JSON if kind == "trust" else _SYNTAX)
    if kind in ("identity", "boundary") and is_managed and _version(text) != "2012-10-17":
        raise _malformation("Policy document must be version 2012-10-17 or greater.")
    for statement in statements:
        _check_legacy(statement)
    problem = _problem_of_resources(statements)
    sids = [statement["Sid"] for statement in statements if statement.get("Sid")]
    if len(set(sids)) != len(sids):
        raise _malformation("Statement IDs (SID) in a single policy must be unique.")
    has_actions = all(
        list(_list_texts(statement, "Action", "NotAction")) for statement in statements
    )
    if not has_actions and kind != "key":
        raise _malformation("Policy statement must contain actions.")
    if problem:
        raise _malformation(problem)
    for statement in statements:
        for action in _list_texts(statement, "Action", "NotAction"):
            _check_action(action)
        _check_keys(statement)
    for statement in statements:
        _check_elements(statement, kind)
    if kind == "trust":
        _check_trust(statements)


def check_size(text: str, holder: Holder, name: str = "", *, others: int = 0) -> None:
    """Refuse a policy that is too long. `others`: the size of the holder's other inline policies.

    Raises PolicyError LimitExceeded with IAM's sentence.
    """
    most = MOST_CHARACTERS[holder]
    if size_of(text) + others <= most:
        return
    if holder == "policy":
        raise PolicyError("LimitExceeded", f"Cannot exceed quota for PolicySize: {most}")
    if holder == "trust":
        raise PolicyError("LimitExceeded", f"Cannot exceed quota for ACLSizePerRole: {most}")
    raise PolicyError(
        "LimitExceeded", f"Maximum policy size of {most} bytes exceeded for {holder} {name}"
    )


def size_of(text: str) -> int:
    """Return a policy's size as IAM counts it: its characters without white space."""
    return len(text) - sum(text.count(white) for white in " \t\r\n")


def _malformation(message: str) -> PolicyError:
    return PolicyError("MalformedPolicyDocument", message)


# --- syntax ---------------------------------------------------------------------------------------


def _statements(text: str, no_json: str) -> list[dict[str, Any]]:
    """Return a policy's statements, after checking its JSON against the grammar; `no_json` is said of other texts."""
    document = _parse(text, no_json)
    if set(document) - _TOP or document.get("Version", _VERSIONS[0]) not in _VERSIONS:
        raise _malformation(_SYNTAX)
    if not isinstance(document.get("Id", ""), str):
        raise _malformation(_SYNTAX)
    value = document.get("Statement")
    listed = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not listed or not all(_is_statement(statement) for statement in listed):
        raise _malformation(_SYNTAX)
    return cast("list[dict[str, Any]]", listed)


def _parse(text: str, no_json: str) -> dict[str, Any]:
    try:
        document: Any = parse_json(text)
    except ValueError:
        raise _malformation(no_json) from None
    if not isinstance(document, dict) or _OUTSIDE.search(text) or "\\u000" in text:
        raise _malformation(_SYNTAX)
    return cast("dict[str, Any]", document)


def _version(text: str) -> Any:
    return _parse(text, _SYNTAX).get("Version")


def _is_statement(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    statement = cast("dict[str, Any]", value)
    pairs = (("Action", "NotAction"), ("Resource", "NotResource"), ("Principal", "NotPrincipal"))
    if set(statement) - _ELEMENTS or any(a in statement and b in statement for a, b in pairs):
        return False
    effect = statement.get("Effect")
    texts = ("Action", "NotAction", "Resource", "NotResource")
    return (
        isinstance(effect, str)
        and effect.lower() in ("allow", "deny")
        and isinstance(statement.get("Sid", ""), str)
        and all(_is_texts(statement[name]) for name in texts if name in statement)
        and _is_condition(statement.get("Condition", {}))
    )


def _is_texts(value: Any) -> bool:
    listed = cast("list[Any]", value) if isinstance(value, list) else [value]
    return all(
        isinstance(text, str) or text is None for text in listed
    )  # IAM accepts null in a list


def _is_condition(condition: Any) -> bool:
    if not isinstance(condition, dict):
        return False
    for operator, keys in cast("dict[str, Any]", condition).items():
        if not isinstance(keys, dict) or (keys and not is_operator(operator)):
            return False
        for values in cast("dict[str, Any]", keys).values():
            listed = cast("list[Any]", values) if isinstance(values, list) else [values]
            if not all(isinstance(value, str | bool | int | float) for value in listed):
                return False
    return True


# --- the values of elements -----------------------------------------------------------------------


def _check_legacy(statement: dict[str, Any]) -> None:
    if statement["Effect"] not in ("Allow", "Deny"):
        raise _malformation(_LEGACY)
    for operator, keys in cast("dict[str, dict[str, Any]]", statement.get("Condition", {})).items():
        if split_operator(operator)[1].startswith("date"):
            for values in keys.values():
                listed = cast("list[Any]", values) if isinstance(values, list) else [values]
                if not all(_is_date(str(value)) for value in listed):
                    raise _malformation(_LEGACY)


def _is_date(text: str) -> bool:
    """Whether IAM accepts a text as a date: seconds, a year alone, times of any precision, or a variable."""
    if "${" in text:
        return True
    if text.isascii() and text.isdigit():
        return int(text) < 1 << 63
    match = _DATE.fullmatch(text.lower())
    if match is None:
        return False
    year, month, day, hour, minute, second, zone = (int(part or 0) for part in match.groups())
    is_day = (match[2] is None or 1 <= month <= 12) and (match[3] is None or 1 <= day <= 31)
    is_time = hour <= 23 and minute <= 59 and second <= 59 and zone <= 23
    return -292275054 <= year <= 292278993 and is_day and is_time


def _check_elements(statement: dict[str, Any], kind: PolicyKind) -> None:
    has_principal = "Principal" in statement or "NotPrincipal" in statement
    has_resource = "Resource" in statement or "NotResource" in statement
    if kind in ("identity", "boundary", "session"):
        if has_principal:
            raise _malformation("Policy document should not specify a principal.")
        if not list(_list_texts(statement, "Resource", "NotResource")):
            raise _malformation("Policy statement must contain resources.")
        return
    if kind == "trust" and has_resource:
        raise _malformation("Has prohibited field Resource")
    value = statement.get("Principal", statement.get("NotPrincipal"))
    if not value:
        raise _malformation("Missing required field Principal")
    _check_principal(value)
    if kind == "resource" and not has_resource:
        raise _malformation("Policy statement must contain resources.")


def _check_principal(value: Any) -> None:
    if value == "*":
        return
    if not isinstance(value, dict):
        raise _malformation(f'Invalid principal in policy: "{value}"')
    for kind, names in cast("dict[str, Any]", value).items():
        if kind not in ("AWS", "Service", "Federated", "CanonicalUser") or not _is_texts(names):
            raise _malformation(_SYNTAX)
        for name in cast("list[str]", names if isinstance(names, list) else [names]):
            if kind == "Federated" and not _is_provider(name):
                raise _malformation(_FEDERATED)
            if not _is_principal(kind, name):
                raise _malformation(f'Invalid principal in policy: "{kind.upper()}":"{name}"')


def _is_principal(kind: str, name: str) -> bool:
    if kind == "Service":
        return "." in name
    if kind != "AWS":
        return bool(name)
    if name == "*" or is_account_id(name) or _UNIQUE_ID.fullmatch(name):
        return True
    parts = name.split(":", 5)
    is_arn = len(parts) == 6 and parts[0] == "arn" and parts[2] in ("iam", "sts", "cloudfront")
    return is_arn and bool(parts[5]) and "*" not in name


def _is_provider(name: str) -> bool:
    """Whether a text is the ARN of an identity provider in IAM, or the domain of a built-in one."""
    if not name.startswith("arn:"):
        return bool(_DOMAIN.fullmatch(name))
    parts = name.split(":", 5)
    of_iam = len(parts) == 6 and parts[2] == "iam" and is_account_id(parts[4])
    return of_iam and parts[5].startswith(("saml-provider/", "oidc-provider/"))


def _list_texts(statement: dict[str, Any], *names: str) -> Iterator[str]:
    for name in names:
        value = statement.get(name, [])
        listed = cast("list[Any]", value if isinstance(value, list) else [value])
        yield from (text for text in listed if text is not None)


def _check_action(action: str) -> None:
    if action == "*":
        return
    vendor, colon, name = action.partition(":")
    if not colon:
        raise _malformation(_NO_VENDOR)
    if ":" in name:
        raise _malformation("Actions/Condition can contain only one colon.")
    if vendor != "*" and not _VENDOR.fullmatch(vendor):
        raise _malformation(f"Vendor {vendor} is not valid")


def _check_keys(statement: dict[str, Any]) -> None:
    """Refuse malformed condition keys, as IAM does. Raises PolicyError.

    IAM accepts keys that no service has; only its Access Analyzer reports them
    (access-analyzer-reference-policy-checks.html, "Invalid service condition key", "Invalid global condition key").
    """
    for keys in cast("dict[str, dict[str, Any]]", statement.get("Condition", {})).values():
        for key in keys:
            # kms:EncryptionContext:aws:s3:arn and tag keys have more colons, and are accepted.
            if "://" in key:
                raise _malformation(_KEY_OF_COLONS)


# --- resources ------------------------------------------------------------------------------------


def _problem_of_resources(statements: list[dict[str, Any]]) -> str:
    """Return the sentence about the first resource that is not an ARN; empty when all are. Raises PolicyError.

    IAM first reports resources that its legacy parser cannot read, then problems of other resources.
    """
    for statement in statements:
        resources = sorted(_list_texts(statement, "Resource", "NotResource"))
        for resource in resources:
            problem = _problem_of(resource)
            if problem:
                return problem
        if any(_is_past_parsing(resource) for resource in resources):
            raise _malformation(_LEGACY)
    return ""


def _is_past_parsing(resource: str) -> bool:
    if resource == "*" or resource.startswith("${"):
        return False
    parts = resource.split(":")
    return ("::" in resource and len(parts) < 6) or (len(parts) > 2 and not parts[2])


def _problem_of(resource: str) -> str:
    if resource == "*" or resource.startswith("${"):
        return ""
    _, colon, rest = resource.partition(":")
    if not colon:
        return f'Resource {resource} must be in ARN format or "*".'
    partition, colon, rest = rest.partition(":")
    if partition not in _PARTITIONS:
        parts = rest.split(":", 3)
        parts = [parts[0] or ("*" if len(parts) == 1 else ""), *parts[1:], "*", "*", "*"][:4]
        shown = ":".join(parts)
        return f'Partition "{partition}" is not valid for resource "arn:{partition}:{shown}".'
    if not colon:
        return "Resource vendor must be fully qualified and cannot contain regexes."
    service, _, rest = rest.partition(":")
    region, _, rest = rest.partition(":")
    return _problem_of_service(resource, service, region, rest.partition(":")[2])


def _problem_of_service(resource: str, service: str, region: str, path: str) -> str:
    if service == "s3" and region and not path.startswith(("accesspoint/", "job/", "storage-lens")):
        return f"Resource {resource} can not contain region information."
    if service == "iam" and region:
        return f"IAM resource {resource} cannot contain region information."
    if service == "iam" and path != "*" and not path.startswith((*_IAM_PATHS, "${")):
        paths = ", ".join(_IAM_PATHS)
        return f'IAM resource path must either be "*" or start with {paths}.'
    return ""


# --- trust ----------------------------------------------------------------------------------------


def _check_trust(statements: list[dict[str, Any]]) -> None:
    for statement in statements:
        for action in _list_texts(statement, "Action"):
            is_wild = action in ("*", "sts:*") or action.startswith("sts:AssumeRole")
            if not is_wild and action not in _OF_TRUST:
                raise _malformation("AssumeRole policy may only specify STS AssumeRole actions.")
