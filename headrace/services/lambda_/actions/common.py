"""What several actions share: functions' names, revisions, publishing, lists in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

from headrace.aws.operation import Call
from headrace.aws.shapes.lambda_ import FunctionConfiguration
from headrace.core.values import BadMarker, page_of
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
) -> Any:
    """Return the answer of a List operation: one page of `items`, with NextMarker when there are more.

    Args:
        items: all of them.
        request: its Marker and MaxItems are read.
        member: the answer's member that holds the page.
        most: how many items a page has at most.

    Raises:
        AwsError: headrace has not made the Marker.
    """
    wanted = min(request.get("MaxItems") or most, most)
    try:
        found, marker = page_of(items, request.get("Marker") or None, wanted)
    except BadMarker:
        raise invalid_parameter("Invalid value for parameter: Marker") from None
    return {member: found} if marker is None else {member: found, "NextMarker": marker}


def configuration_of(version: Version) -> FunctionConfiguration:
    """Return a version's configuration as operations answer with it."""
    return cast("FunctionConfiguration", dict(version.config))


def qualified_config(function: Function, ref: FunctionRef) -> FunctionConfiguration:
    """Return the configuration of the version that `ref` means, with the ARN of `ref`."""
    config = configuration_of(function.resolve(ref.qualifier))
    if ref.qualifier is not None:
        config["FunctionArn"] = ref.qualified_arn
    return config
