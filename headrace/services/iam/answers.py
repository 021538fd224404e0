"""What IAM and STS answer beyond moto: the operations of sessions, and the policy simulator on moto's policies.

For all of moto's services: `headrace up --strict` refuses the members that they ignore, by their fidelity tables, which
`/_headrace/fidelity` shows too. IAM's and STS's are written by hand; of the others, what moto certainly drops.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.protocols import codec_moto
from headrace.aws.protocols.owned_service import Strictness
from headrace.aws.protocols.validate import validate
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.core.ports import FidelityLevel
from headrace.moto import principals
from headrace.moto.without_effect import ROWS, dropped_members
from headrace.permissions.policies.document import UnreadableDocument
from headrace.permissions.policies.model import NamedPolicy, Policies, Principal
from headrace.services.iam.simulate import BadSimulation, context_keys, parse_policies, simulate
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
