"""Types of analytics: Athena, Lake Formation, Redshift, OpenSearch, SageMaker.

Athena: workgroups, data catalogs, named queries, prepared statements.

Lake Formation: settings, resources, permissions.

Redshift's clusters and their groups; `headrace/services/redshift/` runs them.

Redshift Serverless: namespaces and workgroups.

OpenSearch Serverless: collections, and the policies that encrypt, connect and open them.
Firehose's destination finds a collection by its endpoint (`headrace/services/opensearch/`).

OpenSearch's domains; `headrace/services/opensearch/` gives them an endpoint.

Elasticsearch's domains.

SageMaker: models, endpoint configurations, endpoints.
"""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    build_arn,
    declare_sources,
    own_name,
)

_SAGEMAKER = ("ResourceArn", "AddTags", "DeleteTags")


_DOMAIN = {"DomainName": "@id"}


_SERVICE = "opensearchserverless"
_POLICY: dict[str, Source] = {"type": "Type", "name": "Name"}


def _policy_type(kind: str) -> DeclaredType:
    return DeclaredType(
        f"AWS::OpenSearchServerless::{kind}",
        _SERVICE,
        create=[Call(f"Create{kind}")],
        id=lambda v: f"{v.get('Type')}|{v.get('Name')}",
        read=Call(f"Get{kind}", _POLICY),
        update=[
            # The version is the read one: an update must name it.
            Call(f"Get{kind}", _POLICY, only=(), always=True),
            Call(
                f"Update{kind}",
                {
                    "policyVersion": f"@answer.{kind[0].lower()}{kind[1:]}Detail.policyVersion",
                    **_POLICY,
                },
                only=("Policy", "Description"),
            ),
        ],
        delete=[Call(f"Delete{kind}", _POLICY)],
    )


@declare_sources("Resource")
def _older_resource(values: Values) -> dict[str, Any]:
    """Return a resource in the API's form, which has other names than the older of the two types."""
    parts: dict[str, dict[str, Any]] = values.get("Resource") or {}
    resource = {name.removesuffix("Resource"): dict(part) for name, part in parts.items()}
    location = resource.get("DataLocation", {})
    if "S3Resource" in location:
        location["ResourceArn"] = location.pop("S3Resource")
    return resource


_OLDER = {"Principal": "DataLakePrincipal", "Resource": _older_resource}


def _is_granted(values: Values) -> bool:
    """Whether a principal already has any of the permissions: removing them would revoke another resource's grant."""
    params = {
        "Principal": values.get("Principal") or values.get("DataLakePrincipal"),
        "Resource": _older_resource(values)
        if values.get("DataLakePrincipal")
        else values.get("Resource"),
    }
    answer = values.context.call("lakeformation", "ListPermissions", params)
    had = {p for e in answer["PrincipalResourcePermissions"] for p in e.get("Permissions", ())}
    return bool(had & set(values.get("Permissions")))


def _tag(service: str, kind: str, member: str, *calls: str) -> tuple[str, str, str, Source]:
    """Return the calls for the tags of a resource whose ARN ends with its name."""
    add, remove = calls
    return add, remove, member, build_arn(service, f"{kind}/")


_WORKGROUP = {
    "EnforceWorkGroupConfiguration": True,
    "PublishCloudWatchMetricsEnabled": True,
    "RequesterPaysEnabled": False,
    "EngineVersion": {"SelectedEngineVersion": "AUTO"},
}


_RESULTS = ("OutputLocation", "EncryptionConfiguration", "ExpectedBucketOwner", "AclConfiguration")


@declare_sources("WorkGroupConfiguration")
def _workgroup_updates(values: Values) -> dict[str, Any]:
    """Return a workgroup's whole configuration as updates, in which missing settings are removed."""
    configuration: dict[str, Any] = {**_WORKGROUP, **(values.get("WorkGroupConfiguration") or {})}
    results: dict[str, Any] = dict(configuration.pop("ResultConfiguration", None) or {})
    gone = {f"Remove{name}": True for name in _RESULTS if name not in results}
    for name in ("BytesScannedCutoffPerQuery", "CustomerContentEncryptionConfiguration"):
        if name not in configuration:
            configuration[f"Remove{name}"] = True
    return {**configuration, "ResultConfigurationUpdates": {**results, **gone}}


_ATHENA = ("ResourceARN", "TagResource", "UntagResource")


_STATEMENT: dict[str, Source] = {"StatementName": "StatementName", "WorkGroup": "WorkGroup"}


DECLARED = [
    DeclaredType(
        "AWS::Athena::WorkGroup",
        "athena",
        create=[
            Call("CreateWorkGroup"),
            Call("UpdateWorkGroup", {"WorkGroup": "@id"}, only=("State",), when="State"),
        ],
        id="Name",
        read=Call("GetWorkGroup", {"WorkGroup": "@id"}),
        update=[
            Call(
                "UpdateWorkGroup",
                {
                    "WorkGroup": "@id",
                    "ConfigurationUpdates": _workgroup_updates,
                    "State": declare_sources("State")(lambda v: v.get("State") or "ENABLED"),
                },
                only=("Description",),
            )
        ],
        tag=_tag("athena", "workgroup", *_ATHENA),
        delete=[Call("DeleteWorkGroup", {"WorkGroup": "@id"})],
        name="Name",
        names={"WorkGroupConfiguration": "Configuration"},
        # Documented: seconds since 1970.
        attributes={
            "CreationTime": lambda v: str(int(v.answer["WorkGroup"]["CreationTime"].timestamp()))
        },
    ),
    DeclaredType(
        "AWS::Athena::NamedQuery",
        "athena",
        create=[Call("CreateNamedQuery", {"Name": own_name("Name", 128)})],
        id="@answer.NamedQueryId",
        delete=[Call("DeleteNamedQuery", {"NamedQueryId": "@id"})],
        attributes={"NamedQueryId": "@id"},
    ),
    DeclaredType(
        "AWS::Athena::DataCatalog",
        "athena",
        create=[Call("CreateDataCatalog")],
        id="Name",
        read=Call("GetDataCatalog", {"Name": "@id"}),
        update=[Call("UpdateDataCatalog", {"Name": "@id"}, empties=True)],
        tag=_tag("athena", "datacatalog", *_ATHENA),
        delete=[Call("DeleteDataCatalog", {"Name": "@id"})],
        name="Name",
    ),
    DeclaredType(
        "AWS::Athena::PreparedStatement",
        "athena",
        create=[Call("CreatePreparedStatement")],
        id=lambda v: f"{v.get('StatementName')}|{v.get('WorkGroup')}",
        read=Call("GetPreparedStatement", _STATEMENT),
        update=[Call("UpdatePreparedStatement", _STATEMENT)],
        delete=[Call("DeletePreparedStatement", _STATEMENT)],
        # The answer names the workgroup otherwise.
        unread=frozenset({"WorkGroup"}),
    ),
    DeclaredType(
        "AWS::LakeFormation::Resource",
        "lakeformation",
        create=[Call("RegisterResource")],
        id="ResourceArn",
        delete=[Call("DeregisterResource", {"ResourceArn": "ResourceArn"})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::LakeFormation::DataLakeSettings",
        "lakeformation",
        create=[Call("PutDataLakeSettings", into="DataLakeSettings")],
        id=lambda v: f"{v.context.stack_name}-{v.context.logical_id}",
        update=[Call("PutDataLakeSettings", into="DataLakeSettings")],
        delete=[],
        names={"Admins": "DataLakeAdmins"},
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::LakeFormation::PrincipalPermissions",
        "lakeformation",
        create=[Call("GrantPermissions", {"CatalogId": "Catalog"})],
        id=lambda v: f"{v.context.stack_name}-{v.context.logical_id}",
        exists=_is_granted,
        delete=[
            Call(
                "RevokePermissions",
                {
                    "CatalogId": "Catalog",
                    "Principal": "Principal",
                    "Resource": "Resource",
                    "Permissions": "Permissions",
                },
            )
        ],
        attributes={"PrincipalIdentifier": "@id", "ResourceIdentifier": "@id"},
    ),
    DeclaredType(
        "AWS::LakeFormation::Permissions",
        "lakeformation",
        create=[Call("GrantPermissions", _OLDER)],
        id=lambda v: f"{v.context.stack_name}-{v.context.logical_id}",
        exists=_is_granted,
        delete=[Call("RevokePermissions", {**_OLDER, "Permissions": "Permissions"})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::Redshift::Cluster",
        "redshift",
        create=[Call("CreateCluster")],
        id="ClusterIdentifier",
        read=Call("DescribeClusters", {"ClusterIdentifier": "@id"}),
        read_as={
            "IamRoles": lambda v: [
                role["IamRoleArn"] for role in v.answer["Clusters"][0].get("IamRoles") or []
            ]
        },
        update=[Call("ModifyCluster", {"ClusterIdentifier": "@id"})],
        # Deleting it would delete its tables: a change that no call supports creates another cluster, or fails and says
        # so.
        deletes_others=True,
        delete=[
            Call(
                "DeleteCluster",
                {"ClusterIdentifier": "@id", "SkipFinalClusterSnapshot": lambda _: True},
            )
        ],
        name="ClusterIdentifier",
        name_lower=True,
        attributes={
            "Endpoint.Address": "@answer.Clusters.0.Endpoint.Address",
            "Endpoint.Port": lambda v: str(v.answer["Clusters"][0]["Endpoint"]["Port"]),
        },
    ),
    DeclaredType(
        "AWS::Redshift::ClusterSubnetGroup",
        "redshift",
        create=[
            Call("CreateClusterSubnetGroup", {"ClusterSubnetGroupName": "ClusterSubnetGroupName"})
        ],
        id="ClusterSubnetGroupName",
        delete=[Call("DeleteClusterSubnetGroup", {"ClusterSubnetGroupName": "@id"})],
        name="ClusterSubnetGroupName",
        name_lower=True,
    ),
    DeclaredType(
        "AWS::Redshift::ClusterParameterGroup",
        "redshift",
        create=[Call("CreateClusterParameterGroup")],
        id="ParameterGroupName",
        delete=[Call("DeleteClusterParameterGroup", {"ParameterGroupName": "@id"})],
        name="ParameterGroupName",
        name_lower=True,
    ),
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
    DeclaredType(
        "AWS::OpenSearchServerless::Collection",
        _SERVICE,
        create=[Call("CreateCollection")],
        id="@answer.createCollectionDetail.id",
        read=Call("BatchGetCollection", {"ids": lambda v: [v.id]}),
        exists=lambda v: bool(
            v.context.call(_SERVICE, "BatchGetCollection", {"names": [v.get("Name")]})[
                "collectionDetails"
            ]
        ),
        update=[Call("UpdateCollection", {"id": "@id"}, only=("Description",))],
        delete=[Call("DeleteCollection", {"id": "@id"})],
        # Deleting it would delete its indexes.
        deletes_others=True,
        attributes={
            "Arn": "@answer.collectionDetails.0.arn",
            "CollectionEndpoint": "@answer.collectionDetails.0.collectionEndpoint",
            "DashboardEndpoint": "@answer.collectionDetails.0.dashboardEndpoint",
            "KmsKeyArn": "@answer.collectionDetails.0.kmsKeyArn",
        },
    ),
    _policy_type("SecurityPolicy"),
    _policy_type("AccessPolicy"),
    DeclaredType(
        "AWS::OpenSearchService::Domain",
        "opensearch",
        create=[Call("CreateDomain")],
        id="DomainName",
        read=Call("DescribeDomain", _DOMAIN),
        # Deleting it would delete its indexes.
        deletes_others=True,
        tag=("AddTags", "RemoveTags", "ARN", "@answer.DomainStatus.ARN"),
        update=[Call("UpdateDomainConfig", _DOMAIN)],
        delete=[Call("DeleteDomain", _DOMAIN)],
        name="DomainName",
        name_length=28,
        name_lower=True,
        attributes={
            "Arn": "@answer.DomainStatus.ARN",
            "DomainArn": "@answer.DomainStatus.ARN",
            "DomainEndpoint": "@answer.DomainStatus.Endpoint",
            "Id": "@answer.DomainStatus.DomainId",
        },
    ),
    DeclaredType(
        "AWS::Elasticsearch::Domain",
        "es",
        create=[Call("CreateElasticsearchDomain")],
        id="DomainName",
        read=Call("DescribeElasticsearchDomain", _DOMAIN),
        # Deleting it would delete its indexes.
        deletes_others=True,
        tag=("AddTags", "RemoveTags", "ARN", "@answer.DomainStatus.ARN"),
        update=[Call("UpdateElasticsearchDomainConfig", _DOMAIN, empties=True)],
        delete=[Call("DeleteElasticsearchDomain", _DOMAIN)],
        name="DomainName",
        name_length=28,
        name_lower=True,
        attributes={
            "Arn": "@answer.DomainStatus.ARN",
            "DomainArn": "@answer.DomainStatus.ARN",
            "DomainEndpoint": "@answer.DomainStatus.Endpoint",
        },
    ),
    DeclaredType(
        "AWS::SageMaker::Model",
        "sagemaker",
        create=[Call("CreateModel")],
        id="ModelName",
        read=Call("DescribeModel", {"ModelName": "@id"}),
        tag=_tag("sagemaker", "model", *_SAGEMAKER),
        delete=[Call("DeleteModel", {"ModelName": "@id"})],
        name="ModelName",
        name_length=63,
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::SageMaker::EndpointConfig",
        "sagemaker",
        create=[Call("CreateEndpointConfig")],
        id="EndpointConfigName",
        read=Call("DescribeEndpointConfig", {"EndpointConfigName": "@id"}),
        tag=_tag("sagemaker", "endpoint-config", *_SAGEMAKER),
        delete=[Call("DeleteEndpointConfig", {"EndpointConfigName": "@id"})],
        name="EndpointConfigName",
        name_length=63,
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::SageMaker::Endpoint",
        "sagemaker",
        create=[Call("CreateEndpoint")],
        id="EndpointName",
        read=Call("DescribeEndpoint", {"EndpointName": "@id"}),
        update=[Call("UpdateEndpoint", {"EndpointName": "@id"}, only=("EndpointConfigName",))],
        tag=_tag("sagemaker", "endpoint", *_SAGEMAKER),
        delete=[Call("DeleteEndpoint", {"EndpointName": "@id"})],
        name="EndpointName",
        name_length=63,
        attributes={"Id": "@id"},
    ),
]
