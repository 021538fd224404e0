"""Redshift Serverless' operations: namespaces, workgroups, logins, tags. Snapshots and usage limits are not built.

Operations on workgroups and namespaces, their tags and pages, and GetCredentials for psql and drivers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from headrace.aws.calls.operation import Action, Call, operation
from headrace.aws.shapes import redshift_serverless as shapes
from headrace.core.values import BadMarker, moment, page_of, present
from headrace.services.redshift_serverless.backend import RedshiftServerless, tags_of
from headrace.services.redshift_serverless.errors import (
    LOGIN_SECONDS,
    MOST_LOGIN_SECONDS,
    PAGE,
    invalid,
    not_built,
)
from headrace.services.redshift_serverless.state import Namespace, Workgroup


@operation("TagResource")
def tag_resource(
    serverless: RedshiftServerless, call: Call, request: shapes.TagResourceRequest
) -> None:
    """Add tags, or overwrite the values of existing ones. Source: API_TagResource."""
    serverless.tag(call, request["resourceArn"], tags_of(request))


@operation("UntagResource")
def untag_resource(
    serverless: RedshiftServerless, call: Call, request: shapes.UntagResourceRequest
) -> None:
    """Remove tags; a missing tag is not an error. Source: API_UntagResource."""
    serverless.untag(call, request["resourceArn"], request["tagKeys"])


@operation("ListTagsForResource")
def list_tags_for_resource(
    serverless: RedshiftServerless, call: Call, request: shapes.ListTagsForResourceRequest
) -> shapes.ListTagsForResourceResponse:
    """Return a resource's tags. Source: API_ListTagsForResource."""
    tags = serverless.tags(call, request["resourceArn"])
    return {"tags": [{"key": key, "value": value} for key, value in tags.items()]}


@operation("GetCredentials")
def get_credentials(
    serverless: RedshiftServerless, call: Call, request: shapes.GetCredentialsRequest
) -> shapes.GetCredentialsResponse:
    """Return the user `IAM:name` or `IAMR:name` and its password; wait for the server. Source: API_GetCredentials."""
    if "customDomainName" in request:
        raise not_built("custom domain names")
    if "workgroupName" not in request:
        raise invalid("Either workgroupName or customDomainName must be provided.")
    seconds = request.get("durationSeconds", LOGIN_SECONDS)
    if not LOGIN_SECONDS <= seconds <= MOST_LOGIN_SECONDS:
        raise invalid(f"durationSeconds must be between {LOGIN_SECONDS} and {MOST_LOGIN_SECONDS}.")
    until_ms = call.now_ms + seconds * 1000
    user, password = serverless.issue_login(call, request["workgroupName"], until_ms=until_ms)
    end = moment(until_ms)
    return {"dbUser": user, "dbPassword": password, "expiration": end, "nextRefreshTime": end}


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


_T = TypeVar("_T")


def cut_page(
    items: Sequence[_T], request: shapes.ListNamespacesRequest | shapes.ListWorkgroupsRequest
) -> tuple[list[_T], str | None]:
    """Return a page and the token of the next. Raises AwsError."""
    try:
        return page_of(items, request.get("nextToken"), request.get("maxResults") or PAGE)
    except BadMarker:
        raise invalid("Invalid nextToken.") from None


@operation("CreateNamespace")
def create_namespace(
    serverless: RedshiftServerless, call: Call, request: shapes.CreateNamespaceRequest
) -> shapes.CreateNamespaceResponse:
    """Create a namespace; it is AVAILABLE at once. Source: API_CreateNamespace."""
    namespace = serverless.create_namespace(call, request)
    return {"namespace": _describe_namespace(namespace)}


@operation("GetNamespace")
def get_namespace(
    serverless: RedshiftServerless, call: Call, request: shapes.GetNamespaceRequest
) -> shapes.GetNamespaceResponse:
    """Return a namespace. Source: API_GetNamespace."""
    return {"namespace": _describe_namespace(serverless.namespace(call, request["namespaceName"]))}


@operation("ListNamespaces")
def list_namespaces(
    serverless: RedshiftServerless, call: Call, request: shapes.ListNamespacesRequest
) -> shapes.ListNamespacesResponse:
    """Return the namespaces of an account by name. Source: API_ListNamespaces."""
    shown = [_describe_namespace(item) for item in serverless.namespaces(call)]
    page, token = cut_page(shown, request)
    return present({"namespaces": page, "nextToken": token})


@operation("UpdateNamespace")
def update_namespace(
    serverless: RedshiftServerless, call: Call, request: shapes.UpdateNamespaceRequest
) -> shapes.UpdateNamespaceResponse:
    """Change the administrator or the roles. Source: API_UpdateNamespace."""
    namespace = serverless.update_namespace(call, request)
    return {"namespace": _describe_namespace(namespace)}


@operation("DeleteNamespace")
def delete_namespace(
    serverless: RedshiftServerless, call: Call, request: shapes.DeleteNamespaceRequest
) -> shapes.DeleteNamespaceResponse:
    """Delete a namespace with its tables. Source: API_DeleteNamespace. A request for a final snapshot is refused."""
    if request.get("finalSnapshotName") or request.get("finalSnapshotRetentionPeriod"):
        raise not_built("the final snapshot")
    gone = serverless.delete_namespace(call, request["namespaceName"])
    return {"namespace": _describe_namespace(gone, "DELETING")}


def _describe_namespace(namespace: Namespace, status: str = "AVAILABLE") -> shapes.Namespace:
    shown = cast(
        "shapes.Namespace",
        {
            "namespaceArn": namespace.arn,
            "namespaceId": namespace.namespace_id,
            "namespaceName": namespace.name,
            "adminUsername": namespace.admin,
            "dbName": namespace.database,
            "iamRoles": namespace.roles,
            "kmsKeyId": "AWS_OWNED_KMS_KEY",
            "logExports": [],
            "status": status,
            "creationDate": moment(namespace.created_ms),
            **namespace.settings,
        },
    )
    if namespace.default_role:
        shown["defaultIamRoleArn"] = namespace.default_role
    return shown


ACTIONS: list[Action] = [
    create_namespace,
    get_namespace,
    list_namespaces,
    update_namespace,
    delete_namespace,
    create_workgroup,
    get_workgroup,
    list_workgroups,
    update_workgroup,
    delete_workgroup,
    get_credentials,
    tag_resource,
    untag_resource,
    list_tags_for_resource,
]
