"""GetResourceRequestStatus, ListResourceRequests, CancelResourceRequest."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import cloudcontrol as shapes
from headrace.core.values import BadMarker, page_of
from headrace.services.cloudcontrol.backend import CloudControl
from headrace.services.cloudcontrol.errors import invalid
from headrace.services.cloudcontrol.limits import REQUESTS_PER_PAGE


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
