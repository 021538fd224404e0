"""Batch: compute environments and job definitions as AWS describes them."""
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
    """Give a compute environment without a role the service-linked one (documented); moto refuses it.

    docs.aws.amazon.com/batch/latest/APIReference/API_CreateComputeEnvironment.html, `serviceRole`; the role's name and
    path: docs.aws.amazon.com/batch/latest/userguide/using-service-linked-roles.html.
    """
    create = module.BatchBackend.create_compute_environment

    @functools.wraps(create)
    def create_compute_environment(self: Any, *, service_role: str, **named: Any) -> Any:
        role = service_role or _get_linked_role(self.iam_backend)
        return create(self, service_role=role, **named)

    module.BatchBackend.create_compute_environment = create_compute_environment


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
