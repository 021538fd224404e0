"""Redshift Serverless: namespaces and workgroups, their tables by the Data API, and Firehose's COPY into them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.testing.waiting import until
from tests.support.cloud import InProcessCloud

ROLE = "arn:aws:iam::000000000000:role/r"


@pytest.fixture(scope="module")
def serverless(cloud: InProcessCloud) -> Any:
    return cloud.client("redshift-serverless")


@pytest.fixture(scope="module")
def name(serverless: Any, database: str) -> str:
    """The name of a namespace and its workgroup."""
    serverless.create_namespace(
        namespaceName="lake",
        adminUsername="boss",
        adminUserPassword="Secret123",
        dbName=database,
        iamRoles=[ROLE],
        defaultIamRoleArn=ROLE,
    )
    serverless.create_workgroup(workgroupName="lake", namespaceName="lake", baseCapacity=8)
    return "lake"


def sql(cloud: InProcessCloud, workgroup: str, database: str, text: str) -> dict[str, Any]:
    data = cloud.client("redshift-data")
    begun = data.execute_statement(WorkgroupName=workgroup, Database=database, Sql=text)
    return data.describe_statement(Id=begun["Id"], WaitTimeSeconds=30)


def values(cloud: InProcessCloud, described: dict[str, Any]) -> list[Any]:
    assert described["Status"] == "FINISHED", described
    records = cloud.client("redshift-data").get_statement_result(Id=described["Id"])["Records"]
    return [next(iter(row[0].values())) for row in records]


def test_they_are_shown_listed_and_changed(serverless: Any, name: str):
    namespace = serverless.get_namespace(namespaceName=name)["namespace"]
    assert (namespace["status"], namespace["adminUsername"]) == ("AVAILABLE", "boss")
    assert "adminUserPassword" not in namespace
    workgroup = serverless.get_workgroup(workgroupName=name)["workgroup"]
    assert (workgroup["status"], workgroup["baseCapacity"]) == ("AVAILABLE", 8)
    assert workgroup["endpoint"]["address"]
    assert [w["workgroupName"] for w in serverless.list_workgroups()["workgroups"]] == [name]
    assert [n["namespaceName"] for n in serverless.list_namespaces()["namespaces"]] == [name]
    changed = serverless.update_workgroup(workgroupName=name, maxCapacity=64)["workgroup"]
    assert (changed["maxCapacity"], changed["baseCapacity"]) == (64, 8)


def test_firehose_loads_into_a_workgroup_by_its_name(
    cloud: InProcessCloud, name: str, database: str
):
    assert sql(cloud, name, database, "create table landed (n int)")["Status"] == "FINISHED"
    firehose = cloud.client("firehose")
    firehose.create_delivery_stream(
        DeliveryStreamName="to-workgroup",
        RedshiftDestinationConfiguration={
            "RoleARN": ROLE,
            "ClusterJDBCURL": f"jdbc:redshift://{name}.000000000000.us-east-1.redshift-serverless.amazonaws.com:5439/"
            + database,
            "CopyCommand": {"DataTableName": "landed", "CopyOptions": "json 'auto'"},
            "Username": "boss",
            "Password": "Secret123",
            "S3Configuration": {
                "RoleARN": ROLE,
                "BucketARN": "arn:aws:s3:::lake",
                "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
            },
        },
    )
    records = [{"Data": json.dumps({"n": n}).encode()} for n in range(3)]
    firehose.put_record_batch(DeliveryStreamName="to-workgroup", Records=records)
    until(lambda: all(s["is_drained"] for s in cloud.cloud.firehose.statuses()))
    assert values(cloud, sql(cloud, name, database, "select n from landed order by 1")) == [0, 1, 2]


def refusal(call: Any, **given: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**given)
    error: Any = refused.value.response
    return error["Error"]["Code"]


def test_what_is_refused(serverless: Any, cloud: InProcessCloud, name: str):
    assert refusal(serverless.create_namespace, namespaceName=name) == "ConflictException"
    assert (
        refusal(serverless.create_workgroup, workgroupName="other", namespaceName=name)
        == "ConflictException"
    )
    assert (
        refusal(serverless.create_workgroup, workgroupName="other", namespaceName="none")
        == "ResourceNotFoundException"
    )
    assert refusal(serverless.delete_namespace, namespaceName=name) == "ConflictException"
    serverless.create_namespace(namespaceName="wanted-later")
    asked = {"namespaceName": "wanted-later", "finalSnapshotName": "last"}
    assert refusal(serverless.delete_namespace, **asked) == "ValidationException"
    # Nothing is gone that a snapshot was to keep.
    serverless.delete_namespace(namespaceName="wanted-later")
    assert refusal(serverless.get_workgroup, workgroupName="none") == "ResourceNotFoundException"
    data = cloud.client("redshift-data")
    assert (
        refusal(data.execute_statement, WorkgroupName="none", Database="d", Sql="select 1")
        == "ValidationException"
    )


def test_tags(serverless: Any, name: str):
    serverless.create_namespace(namespaceName="tagged", tags=[{"key": "a", "value": "1"}])
    for arn in (
        serverless.get_namespace(namespaceName="tagged")["namespace"]["namespaceArn"],
        serverless.get_workgroup(workgroupName=name)["workgroup"]["workgroupArn"],
    ):
        serverless.tag_resource(
            resourceArn=arn, tags=[{"key": "a", "value": "2"}, {"key": "b", "value": ""}]
        )
        shown = serverless.list_tags_for_resource(resourceArn=arn)["tags"]
        assert shown == [{"key": "a", "value": "2"}, {"key": "b", "value": ""}]
        serverless.untag_resource(resourceArn=arn, tagKeys=["a", "none"])
        shown = serverless.list_tags_for_resource(resourceArn=arn)["tags"]
        assert shown == [{"key": "b", "value": ""}]
        many = [{"key": str(n), "value": ""} for n in range(50)]
        assert (
            refusal(serverless.tag_resource, resourceArn=arn, tags=many) == "TooManyTagsException"
        )
        own = [{"key": "aws:x", "value": ""}]
        assert refusal(serverless.tag_resource, resourceArn=arn, tags=own) == "ValidationException"
    serverless.delete_namespace(namespaceName="tagged")
    gone = arn.replace("workgroup/", "workgroup/x")
    assert (
        refusal(serverless.list_tags_for_resource, resourceArn=gone) == "ResourceNotFoundException"
    )


@pytest.mark.parametrize(
    "given", [{}, {"durationSeconds": 899}, {"durationSeconds": 3601}, {"customDomainName": "a.b"}]
)
def test_logins_that_cannot_be(serverless: Any, name: str, given: dict[str, Any]):
    who = {"workgroupName": name} if "durationSeconds" in given else {}
    assert refusal(serverless.get_credentials, **who, **given) == "ValidationException"


def test_a_login_needs_a_workgroup_and_a_server_of_the_clouds(serverless: Any, name: str):
    assert refusal(serverless.get_credentials, workgroupName="none") == "ResourceNotFoundException"
    # The tests' PostgreSQL counts as the user's own: nobody is let into it.
    assert refusal(serverless.get_credentials, workgroupName=name) == "ValidationException"


def test_a_template_makes_both(cloud: InProcessCloud, serverless: Any):
    template = {
        "Resources": {
            "Namespace": {
                "Type": "AWS::RedshiftServerless::Namespace",
                "Properties": {
                    "NamespaceName": "of-a-stack",
                    "AdminUsername": "boss",
                    "Tags": [{"Key": "team", "Value": "lake"}],
                },
            },
            "Workgroup": {
                "Type": "AWS::RedshiftServerless::Workgroup",
                "Properties": {
                    "WorkgroupName": "of-a-stack",
                    "NamespaceName": {"Ref": "Namespace"},
                    "BaseCapacity": 16,
                },
            },
        },
        "Outputs": {
            "Address": {"Value": {"Fn::GetAtt": ["Workgroup", "Workgroup.Endpoint.Address"]}}
        },
    }
    formation = cloud.client("cloudformation")
    formation.create_stack(StackName="s", TemplateBody=json.dumps(template))

    def stack() -> dict[str, Any]:
        return formation.describe_stacks(StackName="s")["Stacks"][0]

    until(lambda: not stack()["StackStatus"].endswith("IN_PROGRESS"))
    events = formation.describe_stack_events(StackName="s")["StackEvents"]
    assert stack()["StackStatus"] == "CREATE_COMPLETE", [
        (e["LogicalResourceId"], e["ResourceStatus"], e.get("ResourceStatusReason")) for e in events
    ]
    assert stack()["Outputs"][0]["OutputValue"]
    found = serverless.get_workgroup(workgroupName="of-a-stack")["workgroup"]
    assert (found["namespaceName"], found["baseCapacity"]) == ("of-a-stack", 16)
    namespace = serverless.get_namespace(namespaceName="of-a-stack")["namespace"]
    tags = serverless.list_tags_for_resource(resourceArn=namespace["namespaceArn"])["tags"]
    assert {"key": "team", "value": "lake"} in tags
    formation.delete_stack(StackName="s")
    until(lambda: len(serverless.list_namespaces()["namespaces"]) == 1)


def test_tables_stay_with_the_namespace_until_it_is_deleted(
    cloud: InProcessCloud, serverless: Any, name: str, database: str
):
    sql(cloud, name, database, "create table kept (n int)")
    serverless.delete_workgroup(workgroupName=name)
    assert refusal(
        cloud.client("redshift-data").execute_statement,
        WorkgroupName=name,
        Database=database,
        Sql="select 1",
    ) == ("ValidationException")
    serverless.create_workgroup(workgroupName=name, namespaceName=name)
    assert values(cloud, sql(cloud, name, database, "select count(*) from kept")) == [0]
    serverless.delete_workgroup(workgroupName=name)
    serverless.delete_namespace(namespaceName=name)
    assert serverless.list_namespaces()["namespaces"] == []
