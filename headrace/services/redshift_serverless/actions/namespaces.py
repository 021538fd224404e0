"""CreateNamespace, GetNamespace, ListNamespaces, UpdateNamespace, DeleteNamespace.

Pages of the list operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import redshift_serverless as shapes
from headrace.core.values import BadMarker, moment, page_of, present
from headrace.services.redshift_serverless.backend import RedshiftServerless
from headrace.services.redshift_serverless.errors import PAGE, invalid, not_built
from headrace.services.redshift_serverless.state import Namespace

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
    return {"namespace": _describe(namespace)}


@operation("GetNamespace")
def get_namespace(
    serverless: RedshiftServerless, call: Call, request: shapes.GetNamespaceRequest
) -> shapes.GetNamespaceResponse:
    """Return a namespace. Source: API_GetNamespace."""
    return {"namespace": _describe(serverless.namespace(call, request["namespaceName"]))}


@operation("ListNamespaces")
def list_namespaces(
    serverless: RedshiftServerless, call: Call, request: shapes.ListNamespacesRequest
) -> shapes.ListNamespacesResponse:
    """Return the namespaces of an account by name. Source: API_ListNamespaces."""
    shown = [_describe(item) for item in serverless.namespaces(call)]
    page, token = cut_page(shown, request)
    return present({"namespaces": page, "nextToken": token})


@operation("UpdateNamespace")
def update_namespace(
    serverless: RedshiftServerless, call: Call, request: shapes.UpdateNamespaceRequest
) -> shapes.UpdateNamespaceResponse:
    """Change the administrator or the roles. Source: API_UpdateNamespace."""
    namespace = serverless.update_namespace(call, request)
    return {"namespace": _describe(namespace)}


@operation("DeleteNamespace")
def delete_namespace(
    serverless: RedshiftServerless, call: Call, request: shapes.DeleteNamespaceRequest
) -> shapes.DeleteNamespaceResponse:
    """Delete a namespace with its tables. Source: API_DeleteNamespace. A request for a final snapshot is refused."""
    if request.get("finalSnapshotName") or request.get("finalSnapshotRetentionPeriod"):
        raise not_built("the final snapshot")
    gone = serverless.delete_namespace(call, request["namespaceName"])
    return {"namespace": _describe(gone, "DELETING")}


def _describe(namespace: Namespace, status: str = "AVAILABLE") -> shapes.Namespace:
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
