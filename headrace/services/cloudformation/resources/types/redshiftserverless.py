"""Redshift Serverless: namespaces and workgroups."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

DECLARED = [
    DeclaredType(
        "AWS::RedshiftServerless::Namespace",
        "redshift-serverless",
        create=[Call("CreateNamespace")],
        id="NamespaceName",
        read=Call("GetNamespace", {"namespaceName": "@id"}),
        update=[Call("UpdateNamespace", {"namespaceName": "@id"})],
        delete=[Call("DeleteNamespace", {"namespaceName": "@id"})],
        name="NamespaceName",
        name_lower=True,
        # Deleting it would delete its tables, and its workgroup prevents the deletion.
        deletes_others=True,
        attributes={
            "Namespace.NamespaceArn": "@answer.namespace.namespaceArn",
            "Namespace.NamespaceId": "@answer.namespace.namespaceId",
        },
    ),
    DeclaredType(
        "AWS::RedshiftServerless::Workgroup",
        "redshift-serverless",
        create=[Call("CreateWorkgroup")],
        id="WorkgroupName",
        read=Call("GetWorkgroup", {"workgroupName": "@id"}),
        update=[Call("UpdateWorkgroup", {"workgroupName": "@id"})],
        delete=[Call("DeleteWorkgroup", {"workgroupName": "@id"})],
        name="WorkgroupName",
        name_lower=True,
        attributes={
            "Workgroup.WorkgroupArn": "@answer.workgroup.workgroupArn",
            "Workgroup.Endpoint.Address": "@answer.workgroup.endpoint.address",
            "Workgroup.Endpoint.Port": lambda v: str(v.answer["workgroup"]["endpoint"]["port"]),
        },
    ),
]
