"""Batch: compute environments, whose roles have names too, and job definitions as AWS describes them."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import json
import re
from typing import Any

_BATCH = "batch.amazonaws.com"


_BATCH_ROLE = "AWSServiceRoleForBatch"


def correct_environments(module: Any) -> None:
    """Take a role's name for its ARN, and give a compute environment without a role the service-linked one.

    moto refuses both. docs.aws.amazon.com/batch/latest/APIReference/API_CreateComputeEnvironment.html, `serviceRole`
    (documented: the ARN, or the path and the name); the linked role's name and path:
    docs.aws.amazon.com/batch/latest/userguide/using-service-linked-roles.html. That the ARN is shown is assumed.
    """
    create = module.BatchBackend.create_compute_environment
    update = module.BatchBackend.update_compute_environment

    @functools.wraps(create)
    def create_compute_environment(self: Any, *, service_role: str, **named: Any) -> Any:
        role = _arn_of(self.iam_backend, service_role) or _get_linked_role(self.iam_backend)
        return create(self, service_role=role, **named)

    @functools.wraps(update)
    def update_compute_environment(self: Any, *, service_role: str | None, **named: Any) -> Any:
        role = _arn_of(self.iam_backend, service_role)
        return update(self, service_role=role, **named)

    module.BatchBackend.create_compute_environment = create_compute_environment
    module.BatchBackend.update_compute_environment = update_compute_environment


def _arn_of(iam: Any, role: str | None) -> str | None:
    """Return the ARN of the role with this path and name; what is no such role stays as it is."""
    for known in iam.roles.values() if role else ():
        if f"{known.path or '/'}{known.name}".strip("/") == str(role).strip("/"):
            return str(known.arn)
    return role


def allow_short_names(module: Any) -> None:
    """Take names of jobs of one character; moto wants two. Source (documented): API_SubmitJob, `jobName`."""
    module.JOB_NAME_REGEX = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$")


def describe_nodes(module: Any) -> None:
    """Show the nodes of a multi-node job definition, which moto keeps and does not show."""
    describe = module.JobDefinition.describe

    @functools.wraps(describe)
    def describe_with_nodes(self: Any) -> dict[str, Any]:
        nodes = {} if self.node_properties is None else {"nodeProperties": self.node_properties}
        return {**describe(self), **nodes}

    module.JobDefinition.describe = describe_with_nodes


def _get_linked_role(iam: Any) -> str:
    """Return the ARN of the account's service-linked role for Batch, created if it does not exist."""
    for role in iam.roles.values():
        if role.name == _BATCH_ROLE:
            return str(role.arn)
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": [_BATCH]}, "Action": ["sts:AssumeRole"]}
        ],
    }
    linked_role = iam.create_role(
        _BATCH_ROLE,
        json.dumps(trust),
        f"/aws-service-role/{_BATCH}/",
        permissions_boundary=None,
        description="",
        tags=[],
        max_session_duration="3600",
        linked_service=_BATCH,
    )
    return str(linked_role.arn)
