"""Functions that several actions share: names of functions, revisions, publishing versions, pages of lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NotRequired, TypedDict, cast

from headrace.aws.calls.operation import Call
from headrace.aws.shapes.lambda_ import FunctionConfiguration
from headrace.core.ids import Ids
from headrace.core.values import BadMarker, page_of
from headrace.services.lambda_.errors import (
    invalid_parameter,
    precondition_failed,
    update_in_progress,
)
from headrace.services.lambda_.names import LATEST, FunctionRef, check_reachable, parse_function
from headrace.services.lambda_.state import Function, Version

_MOST_A_PAGE = 50
FUNCTIONS_ONLY = (
    "This operation is permitted on Lambda functions only. Aliases and versions do not support this operation. "
    "Please specify either a function name or an unqualified function ARN."
)
# The members that lists of functions and versions leave out.
_BEING_CREATED, _CREATING = "The function is being created.", "Creating"
_NOT_LISTED = ("State", "LastUpdateStatus", "RuntimeVersionConfig")


class NamesFunction(TypedDict):
    """The member by which most requests name a function; many have a Qualifier, too."""

    FunctionName: str


class PageMembers(TypedDict):
    """The members by which a List operation asks for a page."""

    Marker: NotRequired[str]
    MaxItems: NotRequired[int]


def parse_reference(call: Call, request: NamesFunction) -> FunctionRef:
    """Return the function that a request names, with its Qualifier. Raises AwsError if it is in another region."""
    ref = parse_function(
        request["FunctionName"],
        account=call.account,
        region=call.region,
        qualifier=request.get("Qualifier"),
    )
    check_reachable(ref, call.region)
    return ref


def check_unqualified(ref: FunctionRef) -> FunctionRef:
    """Return the function without a qualifier. Raises AwsError for any qualifier other than `$LATEST`."""
    if ref.qualifier not in (None, LATEST):
        raise invalid_parameter(FUNCTIONS_ONLY)
    return replace(ref, qualifier=None)


def check_revision(version: Version, revision_id: str | None) -> None:
    """Refuse a change whose RevisionId is that of an older revision. Raises AwsError."""
    if revision_id and revision_id != version.config["RevisionId"]:
        raise precondition_failed()


def check_settled(function: Function, call: Call) -> None:
    """Refuse a change while an earlier change is in progress. Raises AwsError.

    Calls from inside headrace, such as CloudFormation's, have no headers and need not wait.
    """
    if function.latest.is_changing(call.now_ms) and call.headers:
        raise update_in_progress(function.ref.arn)


def publish(
    function: Function, *, ids: Ids, description: str | None = None
) -> tuple[Version, bool]:
    """Publish `$LATEST` under the next number. Return the version, and whether it is new.

    If code, configuration and description have not changed since the last version, return that one.
    """
    latest = function.latest
    published = function.list_published()
    if published:
        last = published[-1]
        same = last.digest == latest.digest and _list_comparable(last) == _list_comparable(latest)
        if same and last.latest_description in (None, latest.config["Description"]):
            return last, False
    function.last_version += 1
    number = str(function.last_version)
    version = deepcopy(latest)
    version.transition = None
    version.latest_description = str(latest.config["Description"])
    version.config.update(
        Version=number, FunctionArn=f"{function.ref.arn}:{number}", RevisionId=ids.uuid()
    )
    if version.config["SnapStart"]["ApplyOn"] == "PublishedVersions":
        # Every published version is ready at once here.
        version.config["SnapStart"]["OptimizationStatus"] = "On"
    if description is not None:
        version.config["Description"] = description
    function.versions[number] = version
    latest.config["RevisionId"] = ids.uuid()
    return version, True


def _list_comparable(version: Version) -> Mapping[str, object]:
    own = ("Version", "FunctionArn", "RevisionId", "LastModified", "Description", "SnapStart")
    comparable = {name: value for name, value in version.config.items() if name not in own}
    return {**comparable, "SnapStart": version.config["SnapStart"]["ApplyOn"]}


def build_page(
    items: Sequence[Any], request: PageMembers, member: str, *, most: int = _MOST_A_PAGE
) -> Any:
    """Return the answer of a List operation: one page of `items`, with NextMarker when there are more.

    Args:
        items: all items of the list.
        request: the request, whose Marker and MaxItems are used.
        member: the response's member that holds the page.
        most: the largest number of items in a page.

    Raises:
        AwsError: the Marker is not one that headrace returned.
    """
    page_size = min(request.get("MaxItems") or most, most)
    try:
        page_items, marker = page_of(items, request.get("Marker") or None, page_size)
    except BadMarker:
        raise invalid_parameter("Invalid value for parameter: Marker") from None
    return {member: page_items} if marker is None else {member: page_items, "NextMarker": marker}


def configuration_of(version: Version, now_ms: int | None = None) -> FunctionConfiguration:
    """Return a version's configuration for a response; without `now_ms`, in its state after the current change."""
    config = dict(version.config)
    transition = version.transition
    if transition is None or (now_ms is not None and not version.is_changing(now_ms)):
        return cast("FunctionConfiguration", config)
    config["RevisionId"] = transition.revision_id
    if transition.creates:
        del config["LastUpdateStatus"]
        config |= {"State": "Pending", "StateReason": _BEING_CREATED, "StateReasonCode": _CREATING}
    else:
        config |= {
            "LastUpdateStatus": "InProgress",
            "LastUpdateStatusReason": _BEING_CREATED,
            "LastUpdateStatusReasonCode": _CREATING,
        }
    return cast("FunctionConfiguration", config)


def render_listed(version: Version, arn: str) -> FunctionConfiguration:
    """Return a version in the form of lists."""
    config = {name: value for name, value in version.config.items() if name not in _NOT_LISTED}
    return cast("FunctionConfiguration", {**config, "FunctionArn": arn})


def build_qualified_config(
    function: Function, ref: FunctionRef, now_ms: int
) -> FunctionConfiguration:
    """Return the configuration of the version that `ref` names, with the ARN of `ref`."""
    config = configuration_of(function.resolve(ref.qualifier), now_ms)
    if ref.qualifier is not None:
        config["FunctionArn"] = ref.qualified_arn
    return config
