"""Answers IAM's policy simulator, which moto does not have, from the policies that moto holds."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from headrace.aws import codec_moto
from headrace.aws.errors import AwsError
from headrace.aws.http import HttpRequest, HttpResponse
from headrace.permissions.document import UnreadableDocument
from headrace.permissions.model import NamedPolicy, Policies, Principal
from headrace.permissions.simulate import BadSimulation, context_keys, given_policies, simulate

OPERATIONS = frozenset(
    {
        "SimulatePrincipalPolicy",
        "SimulateCustomPolicy",
        "GetContextKeysForPrincipalPolicy",
        "GetContextKeysForCustomPolicy",
    }
)
_KINDS = {"user": "users", "role": "roles", "group": "groups"}


def answer_of_simulation(request: HttpRequest) -> HttpResponse:
    """Return the answer to one of OPERATIONS. Raises AwsError InvalidInput, NoSuchEntity. moto must be loaded."""
    call = request.call
    assert call is not None
    operation, parameters = codec_moto.parse_request("iam", request)
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
        own = () if holder is None else _attached(holder, source)
        return {"ContextKeyNames": context_keys([*(p.document.text for p in own), *texts])}
    given = given_policies(texts, "PolicyInputList", "identity")
    own = given if holder is None else (*_attached(holder, source), *given)
    caller = str(parameters.get("CallerArn") or source)
    principal = _principal(caller, account)
    text = str(parameters.get("ResourcePolicy") or "")
    if text and ":user/" not in caller:
        raise BadSimulation("A resource policy needs the ARN of a user as CallerArn.")
    policies = Policies(
        identity=own,
        boundary=_boundary(parameters, holder),
        resource=next(iter(given_policies([text], "ResourcePolicy", "resource")), None)
        if text
        else None,
    )
    return simulate(principal, policies, parameters)


def _principal(arn: str, account: str) -> Principal:
    """Return the caller that is simulated: a user or a role by its ARN, else nobody in particular."""
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
    """Return moto's user, role or group of an ARN. Raises AwsError NoSuchEntity, BadSimulation."""
    from moto.iam.models import iam_backends

    parts = arn.split(":", 5)
    kind, _, path = parts[5].partition("/") if len(parts) == 6 else ("", "", "")
    if kind not in _KINDS:
        raise BadSimulation(
            f"Invalid Entity Arn: {arn} does not clearly define entity type and name."
        )
    partitions: Any = cast("Any", iam_backends).get(parts[4])
    backend: Any = None if partitions is None else partitions.get("aws")
    holders: Any = {} if backend is None else getattr(backend, _KINDS[kind])
    name = path.rpartition("/")[2]
    for found in list(holders.values()):
        if found.name == name:
            return found
    raise AwsError("NoSuchEntity", f"The {kind} with name {name} cannot be found.", 404)


def _attached(holder: Any, arn: str) -> tuple[NamedPolicy, ...]:
    """Return what is attached to a user (and its groups), a role or a group."""
    kind = arn.split(":", 5)[5].partition("/")[0]
    row = list(_own(holder, kind))
    if kind == "user":
        from moto.iam.models import iam_backends

        groups = iam_backends[holder.account_id]["aws"].groups
        for group in list(groups.values()):
            if holder in group.users:
                row += _own(group, "group")
    return tuple(row)


def _own(holder: Any, kind: str) -> list[NamedPolicy]:
    inline = [
        NamedPolicy.of(f"{kind}_{holder.name}_{name}", str(text))
        for name, text in list(holder.policies.items())
    ]
    managed = [_managed(policy) for policy in list(holder.managed_policies.values())]
    return [*inline, *managed]


def _managed(policy: Any) -> NamedPolicy:
    version = next(v for v in policy.versions if v.version_id == policy.default_version_id)
    return NamedPolicy.of(str(policy.name), str(version.document), str(policy.arn))


def _boundary(parameters: Mapping[str, Any], holder: Any) -> NamedPolicy | None:
    """Return the boundary that the request gives, else the holder's own."""
    texts = cast("list[str]", parameters.get("PermissionsBoundaryPolicyInputList") or [])
    if texts:
        return given_policies(texts, "PermissionsBoundaryPolicyInputList", "boundary")[0]
    arn = getattr(holder, "permissions_boundary_arn", None)
    if not arn:
        return None
    from moto.iam.models import iam_backends

    policy = iam_backends[holder.account_id]["aws"].managed_policies.get(arn)
    return None if policy is None else _managed(policy)
