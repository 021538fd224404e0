"""What several actions share: names, revisions, publishing, pages."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from headrace.aws.operation import Call
from headrace.services.lambda_.errors import invalid_parameter, precondition_failed
from headrace.services.lambda_.names import LATEST, FunctionRef, parse_function
from headrace.services.lambda_.state import Function, Version

_MOST_A_PAGE = 50


def reference(call: Call, request: Mapping[str, Any]) -> FunctionRef:
    """Return the function that a request names, with its Qualifier."""
    return parse_function(
        request["FunctionName"],
        account=call.account,
        region=call.region,
        qualifier=request.get("Qualifier"),
    )


def unqualified(ref: FunctionRef) -> FunctionRef:
    """Return the function without `$LATEST`. Raises AwsError for any other qualifier."""
    if ref.qualifier not in (None, LATEST):
        raise invalid_parameter("This operation is permitted on Lambda functions only.")
    return replace(ref, qualifier=None)


def check_revision(version: Version, request: Mapping[str, Any]) -> None:
    """Refuse a change that was meant for an older revision. Raises AwsError."""
    wanted = request.get("RevisionId")
    if wanted and wanted != version.config["RevisionId"]:
        raise precondition_failed()


def publish(function: Function, *, revision_id: str, description: str | None = None) -> Version:
    """Freeze `$LATEST` under the next number, or return the last version when nothing changed."""
    published = function.published()
    if published:
        last = published[-1]
        same = last.digest == function.latest.digest and _comparable(last) == _comparable(
            function.latest
        )
        if same:
            return last
    function.last_version += 1
    number = str(function.last_version)
    version = deepcopy(function.latest)
    version.config.update(
        Version=number, FunctionArn=f"{function.ref.arn}:{number}", RevisionId=revision_id
    )
    if description is not None:
        version.config["Description"] = description
    function.versions[number] = version
    return version


def _comparable(version: Version) -> dict[str, Any]:
    own = ("Version", "FunctionArn", "RevisionId", "LastModified", "Description")
    return {name: value for name, value in version.config.items() if name not in own}


def page(
    items: Sequence[Any], request: Mapping[str, Any], member: str, *, most: int = _MOST_A_PAGE
) -> dict[str, Any]:
    """Return one page of `items`, with NextMarker when there are more. Raises AwsError."""
    start = 0
    if request.get("Marker"):
        try:
            start = int(base64.urlsafe_b64decode(request["Marker"]))
        except ValueError:
            raise invalid_parameter("Invalid value for parameter: Marker") from None
    end = start + min(request.get("MaxItems") or most, most)
    answer: dict[str, Any] = {member: list(items[start:end])}
    if end < len(items):
        answer["NextMarker"] = base64.urlsafe_b64encode(str(end).encode()).decode()
    return answer


def qualified_config(function: Function, ref: FunctionRef) -> dict[str, Any]:
    """Return the configuration that `ref` means, with the ARN it was asked by."""
    version = function.resolve(ref.qualifier)
    config = dict(version.config)
    if ref.qualifier is not None:
        config["FunctionArn"] = ref.qualified_arn
    return config
