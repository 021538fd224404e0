"""Cloud Control's operations."""

from __future__ import annotations

import json
from typing import Any, cast

from headrace.aws.calls.operation import Action, Call, operation
from headrace.aws.shapes import cloudcontrol as shapes
from headrace.core.ports.control import KnownResource, ResourcePlace
from headrace.core.values import BadMarker, page_of, parse_json
from headrace.services.cloudcontrol.backend import CloudControl
from headrace.services.cloudcontrol.errors import REQUESTS_PER_PAGE, RESOURCES_PER_PAGE, invalid


@operation("GetResourceRequestStatus")
def get_resource_request_status(
    control: CloudControl, call: Call, request: shapes.GetResourceRequestStatusInput
) -> shapes.GetResourceRequestStatusOutput:
    """Return a request's status."""
    return {"ProgressEvent": control.request(call, request["RequestToken"]).event()}


@operation("ListResourceRequests")
def list_resource_requests(
    control: CloudControl, call: Call, request: shapes.ListResourceRequestsInput
) -> shapes.ListResourceRequestsOutput:
    """Return the requests of the last seven days, newest first."""
    status_filter = request.get("ResourceRequestStatusFilter") or {}
    operations = status_filter.get("Operations") or []
    statuses = status_filter.get("OperationStatuses") or []
    rows = [
        one.event()
        for one in control.requests(call)
        if (not operations or one.operation in operations)
        and (not statuses or one.status in statuses)
    ]
    try:
        shown, token = page_of(
            rows, request.get("NextToken"), request.get("MaxResults") or REQUESTS_PER_PAGE
        )
    except BadMarker:
        raise invalid("Invalid NextToken") from None
    answer: shapes.ListResourceRequestsOutput = {"ResourceRequestStatusSummaries": shown}
    if token:
        answer["NextToken"] = token
    return answer


@operation("CancelResourceRequest")
def cancel_resource_request(
    control: CloudControl, call: Call, request: shapes.CancelResourceRequestInput
) -> shapes.CancelResourceRequestOutput:
    """Cancel a request; it may succeed before the cancellation takes effect."""
    return {"ProgressEvent": control.cancel(call, request["RequestToken"])}


@operation("CreateResource")
def create_resource(
    control: CloudControl, call: Call, request: shapes.CreateResourceInput
) -> shapes.CreateResourceOutput:
    """Begin to create a resource from its properties as JSON."""
    kind = request["TypeName"]
    control.check_type(kind, "CREATE")
    properties = _object(request["DesiredState"], "DesiredState")

    def work(scope: ResourcePlace) -> KnownResource:
        return control.types.create(scope, kind, properties)

    return {"ProgressEvent": control.ask(call, request, "CREATE", work)}


@operation("GetResource")
def get_resource(
    control: CloudControl, call: Call, request: shapes.GetResourceInput
) -> shapes.GetResourceOutput:
    """Return a resource as it is now, whoever created it."""
    resource = _find_named(control, call, request, "READ")
    return {
        "TypeName": request["TypeName"],
        "ResourceDescription": _describe(control, request["TypeName"], resource),
    }


@operation("UpdateResource")
def update_resource(
    control: CloudControl, call: Call, request: shapes.UpdateResourceInput
) -> shapes.UpdateResourceOutput:
    """Begin to change a resource in place by a JSON patch (RFC 6902) of its properties."""
    before = _find_named(control, call, request, "UPDATE")
    properties = _apply_patch(before, request["PatchDocument"])

    def work(scope: ResourcePlace) -> KnownResource:
        return control.types.update(scope, request["TypeName"], before, properties)

    event = control.ask(call, request, "UPDATE", work, before)
    return {"ProgressEvent": event}


@operation("DeleteResource")
def delete_resource(
    control: CloudControl, call: Call, request: shapes.DeleteResourceInput
) -> shapes.DeleteResourceOutput:
    """Begin to delete a resource."""
    before = _find_named(control, call, request, "DELETE")

    def work(scope: ResourcePlace) -> None:
        control.types.delete(scope, request["TypeName"], before)

    event = control.ask(call, request, "DELETE", work, before)
    return {"ProgressEvent": event}


@operation("ListResources")
def list_resources(
    control: CloudControl, call: Call, request: shapes.ListResourcesInput
) -> shapes.ListResourcesOutput:
    """Return the resources of a type, whoever created them where the type's service lists them."""
    kind = request["TypeName"]
    control.check_type(kind, "LIST")
    most = request.get("MaxResults") or RESOURCES_PER_PAGE
    try:
        shown, token = page_of(control.listed(call, kind).items(), request.get("NextToken"), most)
    except BadMarker:
        raise invalid("Invalid NextToken") from None
    answer: shapes.ListResourcesOutput = {
        "TypeName": kind,
        "ResourceDescriptions": [
            _describe(control, kind, live)
            for identifier, known in shown
            if (live := control.read(call, kind, identifier, known)) is not None
        ],
    }
    if token:
        answer["NextToken"] = token
    return answer


def _find_named(
    control: CloudControl,
    call: Call,
    request: shapes.GetResourceInput | shapes.UpdateResourceInput | shapes.DeleteResourceInput,
    verb: str,
) -> KnownResource:
    """Return the resource that a request names. Raises AwsError, also when its type does not support `verb`."""
    kind = request["TypeName"]
    control.check_type(kind, verb)
    return control.get(call, kind, request["Identifier"])


def _describe(
    control: CloudControl, kind: str, resource: KnownResource
) -> shapes.ResourceDescription:
    identifier = control.types.identifier_of(kind, resource)
    return {"Identifier": identifier, "Properties": control.model(kind, resource)}


def _object(text: str, member: str) -> dict[str, Any]:
    """Parse a JSON object. Raises AwsError."""
    try:
        value: Any = parse_json(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise invalid(f"{member} is not a valid JSON object")
    return cast("dict[str, Any]", value)


def _apply_patch(resource: KnownResource, document: str) -> dict[str, Any]:
    """Apply a patch to a resource's properties. Raises AwsError."""
    # Imported with the first patch.
    import jsonpatch

    library = cast("Any", jsonpatch)
    try:
        patch = library.JsonPatch.from_string(document)
        patched = patch.apply(parse_json(json.dumps(dict(resource.properties))))
    except (
        library.JsonPatchException,
        library.JsonPointerException,
        ValueError,
        TypeError,
    ) as error:
        raise invalid(f"Invalid patch document: {error}") from error
    if not isinstance(patched, dict):
        raise invalid("Invalid patch document: the whole model is replaced")
    return cast("dict[str, Any]", patched)


ACTIONS: list[Action] = [
    create_resource,
    get_resource,
    update_resource,
    delete_resource,
    list_resources,
    get_resource_request_status,
    list_resource_requests,
    cancel_resource_request,
]
