"""Answers a request with an idempotency token as the earlier one with that token; moto refuses it, or makes a second.

What a request made keeps the token, what was asked and the answer, for as long as it exists, in the database too.
Documented: each member in the service's API reference. Codes are those of the references, sentences are assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

# Of a backend and a request's members (`Name` is the last part of its path): what the request may have made.
_Find = Callable[[Any, dict[str, Any]], Iterable[Any]]
_MADE_BY = "made_by_token"


@dataclass(frozen=True, slots=True)
class _Once:
    """A call that happens once for a token.

    Attributes:
        backend: the handler's attribute with the service's state.
        identifies: the member of the answer, and the attribute of what was made, that are equal; empty: `find` finds
            that alone.
        code: of the refusal of another request with the token; empty: moto's call decides.
        sentence: of that refusal; empty: a common one.
        by_name: whether what `find` finds refuses any other request, with whatever token.
    """

    handler: str
    backend: str
    method: str
    token: str
    find: _Find
    identifies: tuple[str, str] = ("", "")
    code: str = ""
    sentence: str = ""
    by_name: bool = False


def _schedules(backend: Any, asked: dict[str, Any]) -> Iterable[Any]:
    group = backend.schedule_groups.get(asked.get("GroupName") or "default")
    return _named(group.schedules if group else {}, asked["Name"])


def _named(kept: dict[str, Any], name: Any) -> Iterable[Any]:
    return [kept[name]] if name in kept else []


def _of_name(kept: str, name: str = "name") -> _Find:
    """Return what finds, in a backend's dictionary, the things whose name is the request's member of that name."""
    return lambda backend, asked: [
        one
        for one in getattr(backend, kept).values()
        if getattr(one, name.lower()) == asked.get(name)
    ]


def _services_of_cluster(backend: Any, asked: dict[str, Any]) -> Iterable[Any]:
    cluster = str(asked.get("cluster") or "default").rpartition("/")[2]
    made = _named(backend.services, f"{cluster}:{asked.get('serviceName')}")
    return [service for service in made if service.status == "ACTIVE"]


def _of_cluster(kept: str, name: str) -> _Find:
    """Return what finds things of EKS' clusters by the name that a request gives them."""
    return lambda backend, asked: [
        one
        for cluster in backend.clusters.values()
        for one in _named(getattr(cluster, kept), asked.get(name))
    ]


CALLS: dict[str, tuple[_Once, ...]] = {
    "amp": (
        _Once("PrometheusServiceResponse", "amp_backend", "create_workspace", "clientToken",
            lambda b, _: b.workspaces.values(), ("workspaceId", "workspace_id"), "ConflictException"),
    ),
    "athena": (
        _Once("AthenaResponse", "athena_backend", "create_named_query", "ClientRequestToken",
            lambda b, _: b.named_queries.values(), ("NamedQueryId", "id"), "InvalidRequestException"),
    ),
    "backup": (
        _Once("BackupResponse", "backup_backend", "create_backup_plan", "CreatorRequestId",
            lambda b, _: b.plans.values(), ("BackupPlanId", "backup_plan_id"), "AlreadyExistsException"),
    ),
    "ecs": (
        # Documented: CreateService's clientToken; observed by many: the refusal of another service of the name.
        _Once("EC2ContainerServiceResponse", "ecs_backend", "create_service", "clientToken",
            _services_of_cluster, code="InvalidParameterException",
            sentence="Creation of service was not idempotent.", by_name=True),
    ),
    "efs": (
        _Once("EFSResponse", "efs_backend", "create_access_point", "ClientToken",
            lambda b, _: b.access_points.values(), ("AccessPointId", "access_point_id"), "AccessPointAlreadyExists"),
    ),
    "eks": (
        _Once("EKSResponse", "eks_backend", "create_cluster", "clientRequestToken",
            lambda b, asked: _named(b.clusters, asked.get("name"))),
        _Once("EKSResponse", "eks_backend", "create_nodegroup", "clientRequestToken",
            _of_cluster("nodegroups", "nodegroupName")),
        _Once("EKSResponse", "eks_backend", "create_fargate_profile", "clientRequestToken",
            _of_cluster("fargate_profiles", "fargateProfileName")),
    ),
    "emrcontainers": (
        _Once("EMRContainersResponse", "emrcontainers_backend", "create_virtual_cluster", "clientToken",
            lambda b, _: [v for v in b.virtual_clusters.values() if v.state != "TERMINATED"],
            ("id", "id"), "ValidationException"),
    ),
    "opensearchserverless": (
        _Once("OpenSearchServiceServerlessResponse", "opensearchserverless_backend", "create_collection",
            "clientToken", _of_name("collections")),
        _Once("OpenSearchServiceServerlessResponse", "opensearchserverless_backend", "create_security_policy",
            "clientToken", lambda b, asked: [
                one for one in _of_name("security_policies")(b, asked) if one.type == asked.get("type")
            ]),
        _Once("OpenSearchServiceServerlessResponse", "opensearchserverless_backend", "create_vpc_endpoint",
            "clientToken", _of_name("os_endpoints")),
    ),
    "sagemaker": (
        _Once("SageMakerResponse", "sagemaker_backend", "create_pipeline", "ClientRequestToken",
            lambda b, asked: _named(b.pipelines, asked.get("PipelineName"))),
    ),
    "scheduler": (
        _Once("EventBridgeSchedulerResponse", "scheduler_backend", "create_schedule", "ClientToken",
            _schedules),
        _Once("EventBridgeSchedulerResponse", "scheduler_backend", "create_schedule_group", "ClientToken",
            lambda b, asked: _named(b.schedule_groups, asked["Name"])),
    ),
    "servicecatalogappregistry": (
        _Once("AppRegistryResponse", "servicecatalogappregistry_backend", "create_application", "clientToken",
            _of_name("applications")),
    ),
    "servicediscovery": (
        *(
            _Once("ServiceDiscoveryResponse", "servicediscovery_backend", f"create_{kind}_namespace",
                "CreatorRequestId", _of_name("namespaces", "Name"))
            for kind in ("http", "private_dns", "public_dns")
        ),
        _Once("ServiceDiscoveryResponse", "servicediscovery_backend", "create_service", "CreatorRequestId",
            _of_name("services", "Name")),
    ),
    "ssm": (
        _Once("SimpleSystemManagerResponse", "ssm_backend", "create_maintenance_window", "ClientToken",
            lambda b, _: b.windows.values(), ("WindowId", "id"), "IdempotentParameterMismatch"),
        _Once("SimpleSystemManagerResponse", "ssm_backend", "create_patch_baseline", "ClientToken",
            lambda b, _: b.baselines.values(), ("BaselineId", "id"), "IdempotentParameterMismatch"),
    ),
}  # fmt: skip
MODULES = tuple(f"moto.{service}.responses" for service in CALLS)


def answer_again(module: Any) -> None:
    """Let the creations of a module of moto's responses happen once for a token."""
    _, service, _ = module.__name__.split(".")
    for once in CALLS[service]:
        handler = getattr(module, once.handler)
        setattr(handler, once.method, _once_per_token(getattr(handler, once.method), once, module))


def _once_per_token(call: Any, once: _Once, module: Any) -> Any:
    from moto.core.exceptions import ServiceException
    from moto.core.responses import ActionResult

    # moto finds an exception's service by its module.
    mismatch: Any = type("TokenMismatch", (ServiceException,), {"__module__": module.__name__})

    @functools.wraps(call)
    def answer(self: Any) -> Any:
        asked = json.loads(self.body or "{}")
        token = asked.pop(once.token, None)
        if not token and not once.by_name:
            return call(self)
        path = self.uri.partition("?")[0]
        asked.setdefault("Name", path.rpartition("/")[2])
        digest = digest_of(asked)
        backend = getattr(self, once.backend)
        for made in once.find(backend, asked):
            used, for_what, answered = getattr(made, _MADE_BY, ("", "", None))
            if for_what == digest and (used == token or once.by_name):
                return ActionResult(answered) if isinstance(answered, dict) else answered
            if once.code and (used == token or once.by_name):
                used_before = f"{once.token} was used for another request."
                raise mismatch(once.code, once.sentence or used_before)
        result = call(self)
        answered: Any = result.result if isinstance(result, ActionResult) else result
        if _is_success(answered):
            made = _made_by(once, backend, asked, answered)
            setattr(made, _MADE_BY, (token, digest, answered))
        return result

    return answer


def digest_of(asked: dict[str, Any]) -> str:
    """Return what tells one request's members from another's."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _is_success(answered: Any) -> bool:
    """Whether a handler's answer is one: moto says others by a status, beside the body or among the headers."""
    for part in answered if isinstance(answered, tuple) else ():
        headers = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        status = part if isinstance(part, int) else headers.get("status", 200)
        if int(status) >= 300:
            return False
    return True


def _made_by(once: _Once, backend: Any, asked: dict[str, Any], answered: Any) -> Any:
    member, attribute = once.identifies
    body = (
        next(part for part in answered if isinstance(part, str))
        if isinstance(answered, tuple)
        else answered
    )
    shown = json.loads(body) if isinstance(body, str) else body
    return next(
        made
        for made in once.find(backend, asked)
        if not member or getattr(made, attribute) == shown[member]
    )
