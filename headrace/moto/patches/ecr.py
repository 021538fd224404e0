"""ECR: no login, since there is no registry; filters match in bounded time."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from headrace.core.patterns import glob_matches

_NO_REGISTRY = (
    "headrace has no registry of images and runs none, so no image is built or pushed. A Lambda function: deploy it as"
    " a zip (CDK: Function with Code.fromAsset, SAM: PackageType: Zip). An ECS task or a Batch job: name an image"
    " that exists (CDK: ContainerImage.fromRegistry); headrace stores it and does not run it."
)


def refuse_login(module: Any) -> None:
    """Refuse the login that the CDK and SAM CLIs make before they build an image: it could not be pushed."""
    from moto.core.exceptions import JsonRESTError

    def get_authorization_token(self: Any) -> str:
        error = JsonRESTError("NotImplemented", _NO_REGISTRY)
        error.code = 501
        raise error

    module.ECRResponse.get_authorization_token = get_authorization_token


def match_by_wildcards(models: ModuleType) -> None:
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
