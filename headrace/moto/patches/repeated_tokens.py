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
from typing import Any

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
    """

    handler: str
    backend: str
    method: str
    token: str
    find: _Find
    identifies: tuple[str, str] = ("", "")
    code: str = ""


def _schedules(backend: Any, asked: dict[str, Any]) -> Iterable[Any]:
    group = backend.schedule_groups.get(asked.get("GroupName") or "default")
    return _named(group.schedules if group else {}, asked["Name"])


def _named(kept: dict[str, Any], name: Any) -> Iterable[Any]:
    return [kept[name]] if name in kept else []


_CALLS: dict[str, tuple[_Once, ...]] = {
    "athena": (
        _Once("AthenaResponse", "athena_backend", "create_named_query", "ClientRequestToken",
            lambda b, _: b.named_queries.values(), ("NamedQueryId", "id"), "InvalidRequestException"),
    ),
    "backup": (
        _Once("BackupResponse", "backup_backend", "create_backup_plan", "CreatorRequestId",
            lambda b, _: b.plans.values(), ("BackupPlanId", "backup_plan_id"), "AlreadyExistsException"),
    ),
    "emrcontainers": (
        _Once("EMRContainersResponse", "emrcontainers_backend", "create_virtual_cluster", "clientToken",
            lambda b, _: [v for v in b.virtual_clusters.values() if v.state != "TERMINATED"],
            ("id", "id"), "ValidationException"),
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
}  # fmt: skip
MODULES = tuple(f"moto.{service}.responses" for service in _CALLS)


def answer_again(module: Any) -> None:
    """Let the creations of a module of moto's responses happen once for a token."""
    _, service, _ = module.__name__.split(".")
    for once in _CALLS[service]:
        handler = getattr(module, once.handler)
        setattr(handler, once.method, _once_per_token(getattr(handler, once.method), once, module))


def _once_per_token(call: Any, once: _Once, module: Any) -> Any:
    from moto.core.exceptions import ServiceException
    from moto.core.responses import ActionResult

    # moto finds an exception's service by its module.
    mismatch: Any = type("TokenMismatch", (ServiceException,), {"__module__": module.__name__})

    @functools.wraps(call)
    def answer(self: Any) -> Any:
        asked = json.loads(self.body)
        token = asked.pop(once.token, None)
        if not token:
            return call(self)
        asked.setdefault("Name", self.uri.partition("?")[0].rpartition("/")[2])
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        backend = getattr(self, once.backend)
        for made in once.find(backend, asked):
            used, for_what, answered = getattr(made, _MADE_BY, ("", "", None))
            if used == token and for_what == digest:
                return answered if isinstance(answered, str) else ActionResult(answered)
            if used == token and once.code:
                raise mismatch(once.code, f"{once.token} was used for another request.")
        result = call(self)
        answered: Any = result.result if isinstance(result, ActionResult) else result
        if not isinstance(answered, tuple):  # such is an error
            made = _made_by(once, backend, asked, answered)
            setattr(made, _MADE_BY, (token, digest, answered))
        return result

    return answer


def _made_by(
    once: _Once, backend: Any, asked: dict[str, Any], answered: str | dict[str, Any]
) -> Any:
    member, attribute = once.identifies
    shown = json.loads(answered) if isinstance(answered, str) else answered
    return next(
        made
        for made in once.find(backend, asked)
        if not member or getattr(made, attribute) == shown[member]
    )
