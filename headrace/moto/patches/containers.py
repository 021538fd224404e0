"""ECS, ECR, Batch: no login, since there is no registry; bounded filters; compute environments and jobs as on AWS."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from headrace.core.patterns import glob_matches

_BATCH = "batch.amazonaws.com"


_BATCH_ROLE = "AWSServiceRoleForBatch"


def correct_compute_environments(module: Any) -> None:
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


def allow_short_job_names(module: Any) -> None:
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


_NO_REGISTRY = (
    "headrace has no registry of images and runs none, so no image is built or pushed. A Lambda function: deploy it as"
    " a zip (CDK: Function with Code.fromAsset, SAM: PackageType: Zip). An ECS task or a Batch job: name an image"
    " that exists (CDK: ContainerImage.fromRegistry); headrace stores it and does not run it."
)


def refuse_registry_login(module: Any) -> None:
    """Refuse the login that the CDK and SAM CLIs make before they build an image: it could not be pushed."""
    from moto.core.exceptions import JsonRESTError

    def get_authorization_token(self: Any) -> str:
        error = JsonRESTError("NotImplemented", _NO_REGISTRY)
        error.code = 501
        raise error

    module.ECRResponse.get_authorization_token = get_authorization_token


def match_images_by_wildcards(models: ModuleType) -> None:
    """Match filters of repositories and tags by wildcards instead of regular expressions."""
    backend: Any = models.ECRBackend
    resolve: Any = backend._resolve_image_tag_mutability

    def matches_filter(self: Any, filter: str, repository_name: str) -> bool:  # noqa: A002
        return filter in repository_name or glob_matches(f"{filter}*", repository_name)

    @functools.wraps(resolve)
    def resolve_by_wildcard(self: Any, repository: Any, proposed_image_tag: str) -> Any:
        filters: Sequence[Any] = repository.image_tag_mutability_exclusion_filters or []
        applying = [
            {**one, "filter": re.escape(proposed_image_tag)}
            for one in filters
            if glob_matches(one["filter"], proposed_image_tag)
        ]
        if not filters:
            return resolve(self, repository, proposed_image_tag)
        changed = _With(repository, image_tag_mutability_exclusion_filters=applying or _NOTHING)
        return resolve(self, changed, proposed_image_tag)

    backend._match_repository_filter = matches_filter
    backend._resolve_image_tag_mutability = resolve_by_wildcard


# A filter that matches nothing: an empty list would mean that there are no filters.
_NOTHING = [{"filter": r"(?!)", "filterType": "WILDCARD"}]


class _With:
    """An object with some attributes of its own, and otherwise those of another object."""

    def __init__(self, inner: Any, **own: Any) -> None:
        self._inner = inner
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def read_ecs_arns(models: ModuleType) -> None:
    """Read ARNs by their parts instead of a regular expression."""
    refused: Any = models.InvalidParameterException

    def parse_resource_arn(resource_arn: str) -> dict[str, str]:
        """Read `arn:aws:ecs:<region>:<account>:<service>/[<cluster>/[<service id>/ecs-svc/]]<id>`."""
        parts = resource_arn.split(":", 5)
        named = len(parts) == 6 and parts[0] == "arn" and parts[2] == "ecs"
        path = parts[5].split("/") if named else []
        if len(path) < 2 or not (parts[3] and parts[4] and path[0]):
            raise refused("The ARN provided is invalid.")
        parsed = {"region": parts[3], "account_id": parts[4], "service": path[0], "id": path[-1]}
        if len(path) > 2:
            parsed["cluster_id"] = path[1]
        if len(path) > 4 and path[-2] == "ecs-svc":
            parsed["service_id"] = path[2]
        return parsed

    models.EC2ContainerServiceBackend._parse_resource_arn = staticmethod(parse_resource_arn)
