"""What IAM and STS answer beyond moto: the operations of sessions, and the policy simulator on moto's policies.

For all of moto's services: `headrace up --strict` refuses the members that they ignore, by their fidelity tables, which
`/_headrace/fidelity` shows too. IAM's and STS's are written by hand; of the others, what moto certainly drops.

Computes the answers of IAM's policy simulator: SimulatePrincipalPolicy, SimulateCustomPolicy, GetContextKeysFor...

Shapes and defaults: docs.aws.amazon.com/IAM/latest/APIReference/API_SimulateCustomPolicy.html and
API_SimulatePrincipalPolicy.html. The simulator's names for the policies of a request (`PolicyInputList.1`) are from
their examples; the sentences of refusals are assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.protocols import codec_moto
from headrace.aws.protocols.owned_service import Strictness
from headrace.aws.protocols.validate import validate
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.core.ports import FidelityLevel
from headrace.core.values import parse_json
from headrace.moto import principals
from headrace.moto.without_effect import ROWS, dropped_members
from headrace.permissions.policies.conditions import Values
from headrace.permissions.policies.document import UnreadableDocument
from headrace.permissions.policies.evaluate import evaluate, keys_asked, layers_of, values_of
from headrace.permissions.policies.grammar import PolicyError, PolicyKind, check_policy
from headrace.permissions.policies.model import (
    Access,
    Decision,
    Match,
    NamedPolicy,
    Policies,
    Principal,
)
from headrace.services.iam.sts_sessions import OPERATIONS as STS_SESSIONS
from headrace.services.iam.sts_sessions import answer_of_session, answer_of_sts

_SIZE: dict[str, FidelityLevel] = {"MinimumSessionTokenSize": "ignored"}
_IDENTITY_OF_OTHERS = (
    "The signature is not verified. The provider, the audience, the time and the trust policy are,"
    " with --iam enforce."
)
FIDELITY: dict[str, dict[str, dict[str, FidelityLevel]]] = {
    "sts": {
        "AssumeRole": {**_SIZE, "ProvidedContexts": "ignored"},
        "GetSessionToken": _SIZE,
        "GetFederationToken": _SIZE,
        "AssumeRoleWithWebIdentity": {**_SIZE, "WebIdentityToken": "stored", "ProviderId": "ignored"},
        "AssumeRoleWithSAML": {**_SIZE, "SAMLAssertion": "stored"},
    },
    "iam": {
        "UpdateAccountPasswordPolicy": {"HardExpiry": "stored", "MaxPasswordAge": "stored"},
        "CreateLoginProfile": {"Password": "stored", "PasswordResetRequired": "stored"},
        "EnableMFADevice": {"AuthenticationCode1": "ignored", "AuthenticationCode2": "ignored"},
        "CreateSAMLProvider": {"SAMLMetadataDocument": "stored"},
        "CreateOpenIDConnectProvider": {"ThumbprintList": "stored"},
        "SimulatePrincipalPolicy": {"ResourceHandlingOption": "ignored"},
        "SimulateCustomPolicy": {"ResourceHandlingOption": "ignored"},
    },
}  # fmt: skip
NOTES: dict[str, str] = {
    "AssumeRoleWithWebIdentity.WebIdentityToken": _IDENTITY_OF_OTHERS,
    "AssumeRoleWithSAML.SAMLAssertion": _IDENTITY_OF_OTHERS,
    **{f"{row.operation}.{row.member}": row.sentence for row in ROWS if row.is_ignored},
}


def moto_tables() -> dict[str, dict[str, dict[str, FidelityLevel]]]:
    """Return the fidelity tables of moto's services, by botocore's name of the service."""
    tables = {
        name: {call: dict(levels) for call, levels in table.items()}
        for name, table in FIDELITY.items()
    }
    for name, dropped in dropped_members().items():
        table = tables.setdefault(name, {})
        for call, levels in dropped.items():
            table[call] = {**levels, **table.get(call, {})}
    for row in ROWS:
        if row.is_ignored:
            tables.setdefault(row.service, {}).setdefault(row.operation, {})[row.member] = "ignored"
    return tables


# botocore's names of services whose requests name themselves otherwise, in their signature's scope.
_SCOPES = {
    "apigatewayv2": "apigateway",
    "cloudwatch": "monitoring",
    "efs": "elasticfilesystem",
    "elbv2": "elasticloadbalancing",
    "kinesisanalyticsv2": "kinesisanalytics",
    "opensearch": "es",
    "opensearchserverless": "aoss",
    "sesv2": "ses",
}
# Of services that share their scope's protocol with an older one: what the bodies of their requests have.
_VERSIONS = {"elbv2": b"Version=2015-12-01"}


class StrictChecks:
    """Refuses calls with members that would be ignored. Thread-safe. Services without a table refuse nothing."""

    def __init__(self) -> None:
        # By the names in signatures, and by botocore's.
        self._named: dict[str, list[tuple[str, Strictness]]] = {}
        for name, table in moto_tables().items():
            one = (name, Strictness(name, table))
            for known in {name, _SCOPES.get(name, name)}:
                self._named.setdefault(known, []).append(one)

    def check(self, service: str, request: HttpRequest) -> None:
        """Raise AwsError when a request to `service` has a member that would be ignored."""
        for name, strictness in self._named.get(service, ()):
            if _VERSIONS.get(name, b"") not in request.body:
                continue
            try:
                operation, params = codec_moto.operation_of(name, request)
            except codec_moto.Unreadable:
                continue  # the service itself reports the error
            strictness.check(operation, params)


SIMULATIONS = frozenset(
    {
        "SimulatePrincipalPolicy",
        "SimulateCustomPolicy",
        "GetContextKeysForPrincipalPolicy",
        "GetContextKeysForCustomPolicy",
    }
)


def answer_of_simulation(request: HttpRequest) -> HttpResponse:
    """Return the answer to one of SIMULATIONS. Raises AwsError InvalidInput, NoSuchEntity. moto must be loaded."""
    call = request.call
    assert call is not None
    operation, parameters = codec_moto.parse_request("iam", request)
    validate("iam", operation, parameters, code="ValidationError")
    try:
        answer = _answer(operation, parameters, call.account)
    except (BadSimulation, UnreadableDocument) as error:
        raise AwsError("InvalidInput", str(error), 400) from None
    return codec_moto.serialize_output("iam", operation, answer, call.request_id)


def _answer(operation: str, parameters: Mapping[str, Any], account: str) -> dict[str, Any]:
    texts = list(cast("list[str]", parameters.get("PolicyInputList") or []))
    source = str(parameters.get("PolicySourceArn", ""))
    holder = _holder(source) if source else None
    if operation.startswith("GetContextKeys"):
        own = () if holder is None else _list_attached(holder, source)
        return {"ContextKeyNames": context_keys([*(p.document.text for p in own), *texts])}
    documents = parse_policies(texts, "PolicyInputList", "identity")
    own = documents if holder is None else (*_list_attached(holder, source), *documents)
    caller = str(parameters.get("CallerArn") or source)
    principal = _principal(caller, account)
    text = str(parameters.get("ResourcePolicy") or "")
    if text and ":user/" not in caller:
        raise BadSimulation("A resource policy needs the ARN of a user as CallerArn.")
    policies = Policies(
        identity=own,
        boundary=_boundary(parameters, holder),
        resource=next(iter(parse_policies([text], "ResourcePolicy", "resource")), None)
        if text
        else None,
    )
    return simulate(principal, policies, parameters)


def _principal(arn: str, account: str) -> Principal:
    """Return the simulated caller: a user or a role by its ARN, else an anonymous principal."""
    parts = arn.split(":", 5)
    if len(parts) != 6:
        return Principal("user", f"arn:aws:iam::{account}:user/simulated", account)
    kind, _, path = parts[5].partition("/")
    name = path.rpartition("/")[2]
    if kind == "role":
        session = f"arn:aws:sts::{parts[4]}:assumed-role/{name}/simulated"
        return Principal("role", session, parts[4], arn, name=name)
    return Principal("user", arn, parts[4], arn, name=name)


def _holder(arn: str) -> Any:
    """Return moto's user, role or group with an ARN. Raises AwsError NoSuchEntity, BadSimulation."""
    parts = arn.split(":", 5)
    kind, _, path = parts[5].partition("/") if len(parts) == 6 else ("", "", "")
    if kind not in principals.HOLDERS:
        raise BadSimulation(
            f"Invalid Entity Arn: {arn} does not clearly define entity type and name."
        )
    holder = principals.holder_of_arn(arn)
    if holder is None:
        name = path.rpartition("/")[2]
        raise AwsError("NoSuchEntity", f"The {kind} with name {name} cannot be found.", 404)
    return holder


def _list_attached(holder: Any, arn: str) -> tuple[NamedPolicy, ...]:
    """Return the policies of a user (with its groups), a role or a group."""
    account, resource = arn.split(":", 5)[4:]
    kind = resource.partition("/")[0]
    row = list(_own(holder, kind))
    if kind == "user":
        for group in principals.groups_of(account, holder):
            row += _own(group, "group")
    return tuple(row)


def _own(holder: Any, kind: str) -> list[NamedPolicy]:
    inline = [
        NamedPolicy.of(f"{kind}_{holder.name}_{name}", text)
        for name, text in principals.inline_policies(holder)
    ]
    return [*inline, *principals.list_attached_policies(holder)]


def _boundary(parameters: Mapping[str, Any], holder: Any) -> NamedPolicy | None:
    """Return the permissions boundary in the request, else the holder's own."""
    texts = cast("list[str]", parameters.get("PermissionsBoundaryPolicyInputList") or [])
    if texts:
        return parse_policies(texts, "PermissionsBoundaryPolicyInputList", "boundary")[0]
    if holder is None:
        return None
    return principals.boundary_of(str(holder.arn).split(":")[4], holder)


def answer_without_moto(
    package: str, operation: str, request: HttpRequest, sessions: RoleSessions | None
) -> HttpResponse | None:
    """Return the answer to an operation of moto's package; None if moto answers it. moto must be loaded.

    Raises AwsError, with the service's sentence.
    """
    if package == "iam" and operation in SIMULATIONS:
        return answer_of_simulation(request)
    if package != "sts" or sessions is None:
        return None
    if operation == "GetCallerIdentity":
        return answer_of_session(sessions, request)
    return answer_of_sts(sessions, request) if operation in STS_SESSIONS else None


_DECISIONS = {"allow": "allowed", "explicit deny": "explicitDeny", "implicit deny": "implicitDeny"}
_ACTION = re.compile(r"[A-Za-z0-9-]+:[A-Za-z0-9*?]+")
_VARIABLE = re.compile(r"\$\{([^}*?$,]+)[^}]*\}")


class BadSimulation(Exception):
    """IAM refuses the simulation: InvalidInput with this message."""


def parse_policies(texts: Iterable[str], name: str, kind: PolicyKind) -> tuple[NamedPolicy, ...]:
    """Return the policies in the request, with the simulator's names for them. Raises BadSimulation."""
    named: list[NamedPolicy] = []
    for number, text in enumerate(texts, start=1):
        try:
            check_policy(text, kind, is_managed=False)
            named.append(NamedPolicy.of(f"{name}.{number}" if kind != "resource" else name, text))
        except (PolicyError, UnreadableDocument) as error:
            raise BadSimulation(str(error)) from None
    return tuple(named)


def simulate(
    principal: Principal, policies: Policies, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one page of results, for each action on each resource. `parameters` are the operation's.

    Raises BadSimulation for input that IAM refuses.
    """
    actions = cast("list[str]", parameters["ActionNames"])
    for action in actions:
        if not _ACTION.fullmatch(action):
            raise BadSimulation(f"Invalid action name: {action}")
    resources = cast("list[str]", parameters.get("ResourceArns") or ["*"])
    owner = str(parameters.get("ResourceOwner") or "").split(":")
    account = owner[4] if len(owner) > 4 else owner[0]
    context = context_of(cast("list[Mapping[str, Any]]", parameters.get("ContextEntries") or []))
    accesses = [
        Access(action, resource, account or principal.account, context)
        for action in actions
        for resource in resources
    ]
    start = _start_of(parameters)
    end = start + int(parameters.get("MaxItems") or 100)
    answer: dict[str, Any] = {
        "EvaluationResults": [_result(principal, a, policies) for a in accesses[start:end]],
        "IsTruncated": end < len(accesses),
    }
    if end < len(accesses):
        answer["Marker"] = str(end)
    return answer


def context_keys(texts: Iterable[str]) -> list[str]:
    """Return the condition keys that policies refer to, in conditions and as variables, sorted."""
    keys: set[str] = set()
    for text in texts:
        try:
            keys.update(_keys_in(parse_json(text)))
        except ValueError:
            raise BadSimulation("Syntax errors in policy.") from None
    return sorted(keys)


def context_of(entries: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return ContextEntries as condition keys and their values."""
    return {
        str(entry.get("ContextKeyName", "")).lower(): tuple(
            str(value) for value in cast("list[Any]", entry.get("ContextKeyValues") or [])
        )
        for entry in entries
    }


def _start_of(parameters: Mapping[str, Any]) -> int:
    marker = str(parameters.get("Marker") or "0")
    if not marker.isascii() or not marker.isdigit() or len(marker) > 6:
        raise BadSimulation(f"Invalid Marker: {marker}")
    return int(marker)


def _keys_in(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        members = cast("dict[str, Any]", document)
        condition = members.get("Condition")
        if isinstance(condition, dict):
            for keys in cast("dict[str, Any]", condition).values():
                if isinstance(keys, dict):
                    yield from cast("dict[str, Any]", keys)
        for value in members.values():
            yield from _keys_in(value)
    elif isinstance(document, list):
        for value in cast("list[Any]", document):
            yield from _keys_in(value)
    elif isinstance(document, str):
        yield from (key.strip() for key in _VARIABLE.findall(document))


# --- one result -----------------------------------------------------------------------------------


def _result(principal: Principal, access: Access, policies: Policies) -> dict[str, Any]:
    decision = evaluate(principal, access, policies)
    result: dict[str, Any] = {
        "EvalActionName": access.action,
        "EvalResourceName": access.resource,
        "EvalDecision": _DECISIONS[decision.effect],
        "MatchedStatements": _list_matched(decision),
        "MissingContextValues": _list_missing_keys(access, policies, values_of(principal, access)),
    }
    if policies.boundary is not None:
        is_within = any(match.layer == "permissions boundary" for match in decision.matched)
        result["PermissionsBoundaryDecisionDetail"] = {
            "AllowedByPermissionsBoundary": is_within and decision.effect != "explicit deny"
        }
    return result


def _list_matched(decision: Decision) -> list[dict[str, Any]]:
    """Return the statements that decided; an implicit denial has none."""
    if decision.effect == "implicit deny":
        return []
    return [_statement(match) for match in decision.matched]


def _statement(match: Match) -> dict[str, Any]:
    start, end = position_of(match.policy.document.text, match.index)
    kind = "resource" if match.layer == "resource-based policy" else "none"
    if match.policy.arn:
        kind = "aws-managed" if ":iam::aws:" in match.policy.arn else "user-managed"
    elif match.policy.name.startswith(("user_", "role_", "group_")):
        kind = match.policy.name.partition("_")[0]
    return {
        "SourcePolicyId": match.policy.name,
        "SourcePolicyType": kind,
        "StartPosition": start,
        "EndPosition": end,
    }


def _list_missing_keys(access: Access, policies: Policies, values: Values) -> list[str]:
    """Return the condition keys that statements about the access use and the request does not give."""
    asked = {key for key in keys_asked(access, policies) if not values(key)}
    value = {
        key.lower(): key
        for key in context_keys(policy.document.text for _, policy in layers_of(policies))
    }
    return sorted(value.get(key, key) for key in asked)


def position_of(text: str, index: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return line and column, counted from 1, of a statement's start and of the position after its end."""
    starts_and_ends = _spans(text)
    start, end = starts_and_ends[index] if index < len(starts_and_ends) else (0, len(text))
    return _place(text, start), _place(text, end)


def _place(text: str, offset: int) -> dict[str, int]:
    line_start = text.rfind("\n", 0, offset) + 1
    return {"Line": text.count("\n", 0, offset) + 1, "Column": offset - line_start + 1}


def _spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each statement of a policy, which is valid JSON."""
    decoder = json.JSONDecoder()
    position = _past_white(text, text.index("{") + 1)
    while text[position] == '"':
        name, position = decoder.raw_decode(text, position)
        position = _past_white(text, _past_white(text, position) + 1)
        if name == "Statement":
            return _spans_of_value(decoder, text, position)
        position = _past_white(text, decoder.raw_decode(text, position)[1])
        position = _past_white(text, position + 1) if text[position] == "," else position
    return []


def _spans_of_value(decoder: json.JSONDecoder, text: str, at: int) -> list[tuple[int, int]]:
    if text[at] == "{":
        return [(at, decoder.raw_decode(text, at)[1])]
    spans: list[tuple[int, int]] = []
    at = _past_white(text, at + 1)
    while text[at] == "{":
        end = decoder.raw_decode(text, at)[1]
        spans.append((at, end))
        at = _past_white(text, end)
        at = _past_white(text, at + 1) if text[at] == "," else at
    return spans


def _past_white(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
