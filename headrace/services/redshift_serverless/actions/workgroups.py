"""CreateWorkgroup, GetWorkgroup, ListWorkgroups, UpdateWorkgroup, DeleteWorkgroup."""

from __future__ import annotations

from typing import cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import redshift_serverless as shapes
from headrace.core.values import moment, present
from headrace.services.redshift_serverless.actions.pages import cut_page
from headrace.services.redshift_serverless.backend import RedshiftServerless
from headrace.services.redshift_serverless.state import Workgroup


@operation("CreateWorkgroup")
def create_workgroup(
    serverless: RedshiftServerless, call: Call, request: shapes.CreateWorkgroupRequest
) -> shapes.CreateWorkgroupResponse:
    """Create a workgroup, AVAILABLE at once; its PostgreSQL starts in the background. Source: API_CreateWorkgroup."""
    workgroup = serverless.create_workgroup(call, request)
    return {"workgroup": _describe(serverless, call, workgroup)}


@operation("GetWorkgroup")
def get_workgroup(
    serverless: RedshiftServerless, call: Call, request: shapes.GetWorkgroupRequest
) -> shapes.GetWorkgroupResponse:
    """Return a workgroup. Source: API_GetWorkgroup."""
    workgroup = serverless.workgroup(call, request["workgroupName"])
    return {"workgroup": _describe(serverless, call, workgroup)}


@operation("ListWorkgroups")
def list_workgroups(
    serverless: RedshiftServerless, call: Call, request: shapes.ListWorkgroupsRequest
) -> shapes.ListWorkgroupsResponse:
    """Return the workgroups of an account by name. Source: API_ListWorkgroups."""
    shown = [_describe(serverless, call, item) for item in serverless.workgroups(call)]
    page, token = cut_page(shown, request)
    return present({"workgroups": page, "nextToken": token})


@operation("UpdateWorkgroup")
def update_workgroup(
    serverless: RedshiftServerless, call: Call, request: shapes.UpdateWorkgroupRequest
) -> shapes.UpdateWorkgroupResponse:
    """Change a workgroup's settings, which headrace only shows. Source: API_UpdateWorkgroup."""
    workgroup = serverless.update_workgroup(call, request)
    return {"workgroup": _describe(serverless, call, workgroup)}


@operation("DeleteWorkgroup")
def delete_workgroup(
    serverless: RedshiftServerless, call: Call, request: shapes.DeleteWorkgroupRequest
) -> shapes.DeleteWorkgroupResponse:
    """Delete a workgroup; the namespace keeps its tables. Source: API_DeleteWorkgroup."""
    gone = serverless.delete_workgroup(call, request["workgroupName"])
    return {"workgroup": _describe(serverless, call, gone, "DELETING")}


def _describe(
    serverless: RedshiftServerless, call: Call, workgroup: Workgroup, status: str = "AVAILABLE"
) -> shapes.Workgroup:
    shown = cast(
        "shapes.Workgroup",
        {
            "workgroupArn": workgroup.arn,
            "workgroupId": workgroup.workgroup_id,
            "workgroupName": workgroup.name,
            "namespaceName": workgroup.namespace,
            "port": workgroup.port,
            "status": status,
            "creationDate": moment(workgroup.created_ms),
            **workgroup.settings,
        },
    )
    if status == "AVAILABLE":
        address, port = serverless.address(call, workgroup)
        shown["endpoint"] = {"address": address, "port": port, "vpcEndpoints": []}
    return shown
