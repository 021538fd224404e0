"""Changes for which moto has no call, or a call that leaves something as it was: each shows in the service afterwards.

What a resource has beside its properties stays: a job's runs, a user's keys, who holds a policy, a document's versions.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.cloudformation.test_stacks import create, physical, settled, template
from tests.support.cloud import InProcessCloud

NAMED = {"Capabilities": ["CAPABILITY_NAMED_IAM"]}
ALLOW = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}
ROLE = "arn:aws:iam::000000000000:role/any"


def of(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


def change(cfn: Any, **resources: Any) -> str:
    cfn.update_stack(StackName="s", TemplateBody=json.dumps(template(**resources)), **NAMED)
    return settled(cfn, "s")


def test_glue_s_jobs_crawlers_triggers_and_connections_change(cloud: InProcessCloud, cfn: Any):
    glue = cloud.client("glue")

    def resources(**of_job: Any) -> dict[str, Any]:
        number = len(of_job)
        cron = {"ScheduleExpression": "cron(0 1 * * ? *)"} if number else None
        crawled = {"S3Targets": [{"Path": f"s3://b/{number}"}]}
        connected = {"ConnectionType": "NETWORK", "Description": f"d{number}", "Name": "net"}
        crawler = {"Role": ROLE, "Targets": crawled, "TablePrefix": "t" if number else ""}
        return {
            "Job": of("Glue::Job", Role=ROLE, Command={"Name": "glueetl"}, **of_job),
            "Crawler": of("Glue::Crawler", **crawler, **({"Schedule": cron} if cron else {})),
            "Trigger": of("Glue::Trigger", Type="ON_DEMAND", Actions=[{"JobName": f"j{number}"}]),
            "Net": of("Glue::Connection", CatalogId="000000000000", ConnectionInput=connected),
        }

    assert (
        create(cfn, template(**resources(Description="a", MaxRetries=2)), **NAMED)
        == "CREATE_COMPLETE"
    )
    job = physical(cfn, "Job")
    assert change(cfn, **resources()) == "UPDATE_COMPLETE"
    assert physical(cfn, "Job") == job
    shown = glue.get_job(JobName=job)["Job"]
    assert not shown.get("Description")
    assert shown.get("MaxRetries", 0) == 0
    crawler = glue.get_crawler(Name=physical(cfn, "Crawler"))["Crawler"]
    assert crawler["Targets"]["S3Targets"] == [{"Path": "s3://b/0"}]
    assert (crawler["Version"], crawler.get("Schedule")) == (2, None)
    trigger = glue.get_trigger(Name=physical(cfn, "Trigger"))["Trigger"]
    assert trigger["Actions"] == [{"JobName": "j0"}]
    assert glue.get_connection(Name="net")["Connection"]["Description"] == "d0"


def test_a_user_keeps_its_keys_and_a_policy_its_principals(cloud: InProcessCloud, cfn: Any):
    iam, iot = cloud.client("iam"), cloud.client("iot")
    boundary = iam.create_policy(PolicyName="b", PolicyDocument=json.dumps(ALLOW))["Policy"]["Arn"]

    def policy(action: str) -> dict[str, Any]:
        statement = {"Effect": "Allow", "Action": action, "Resource": "*"}
        return of("IoT::Policy", PolicyDocument={"Version": "2012-10-17", "Statement": [statement]})

    body = template(User=of("IAM::User", UserName="u", Path="/a/"), Policy=policy("iot:0"))
    assert create(cfn, body, **NAMED) == "CREATE_COMPLETE"
    iam.create_access_key(UserName="u")
    certificate = iot.create_keys_and_certificate(setAsActive=True)["certificateArn"]
    name = physical(cfn, "Policy")
    iot.attach_policy(policyName=name, target=certificate)
    login = {"Password": "a-Password-1"}
    user = of("IAM::User", UserName="u", PermissionsBoundary=boundary, LoginProfile=login)
    for number in range(1, 7):
        # IoT keeps five versions of a policy.
        assert change(cfn, User=user, Policy=policy(f"iot:{number}")) == "UPDATE_COMPLETE"
    found = iam.get_user(UserName="u")["User"]
    assert found["Path"] == "/"
    assert found["PermissionsBoundary"]["PermissionsBoundaryArn"] == boundary
    assert iam.get_login_profile(UserName="u")["LoginProfile"]["UserName"] == "u"
    assert len(iam.list_access_keys(UserName="u")["AccessKeyMetadata"]) == 1
    assert "iot:6" in iot.get_policy(policyName=name)["policyDocument"]
    assert iot.list_targets_for_policy(policyName=name)["targets"] == [certificate]
    iot.detach_policy(policyName=name, target=certificate)


def test_a_project_a_workgroup_a_group_and_a_stage_change(cloud: InProcessCloud, cfn: Any):
    def resources(is_new: bool) -> dict[str, Any]:
        place = {"OutputLocation": "s3://b/"}
        work = {"ResultConfiguration": place, "BytesScannedCutoffPerQuery": 10_000_000}
        computed = {"Type": "LINUX_CONTAINER", "ComputeType": "BUILD_GENERAL1_SMALL"}
        more = {"Description": "d", "TimeoutInMinutes": 30} if is_new else {}
        return {
            "Work": of(
                "Athena::WorkGroup", Name="w", WorkGroupConfiguration=work if is_new else {}
            ),
            "Build": of(
                "CodeBuild::Project",
                Source={"Type": "NO_SOURCE", "BuildSpec": "version: 0.2"},
                Artifacts={"Type": "NO_ARTIFACTS"},
                Environment={**computed, "Image": "aws/codebuild/standard:7.0"},
                ServiceRole=ROLE,
                **more,
            ),
            "App": of("CodeDeploy::Application", ComputePlatform="Lambda"),
            "Group": of(
                "CodeDeploy::DeploymentGroup",
                ApplicationName={"Ref": "App"},
                ServiceRoleArn=ROLE,
                AutoRollbackConfiguration={"Enabled": is_new},
            ),
            "Api": of("ApiGatewayV2::Api", Name="a", ProtocolType="HTTP"),
            "Stage": of(
                "ApiGatewayV2::Stage",
                ApiId={"Ref": "Api"},
                StageName="s",
                StageVariables={"v": "1"} if is_new else {},
            ),
        }

    assert create(cfn, template(**resources(False)), **NAMED) == "CREATE_COMPLETE"
    api = cloud.client("apigatewayv2")
    stage = {"ApiId": physical(cfn, "Api"), "StageName": "s"}
    made = api.get_stage(**stage)["CreatedDate"]
    group = {
        "applicationName": physical(cfn, "App"),
        "deploymentGroupName": physical(cfn, "Group"),
    }
    deploy = cloud.client("codedeploy")
    group_id = deploy.get_deployment_group(**group)["deploymentGroupInfo"]["deploymentGroupId"]
    for is_new in (True, False, True):
        assert change(cfn, **resources(is_new)) == "UPDATE_COMPLETE"
        work = cloud.client("athena").get_work_group(WorkGroup="w")["WorkGroup"]["Configuration"]
        results = work.get("ResultConfiguration", {})
        assert results.get("OutputLocation") == ("s3://b/" if is_new else None)
        assert ("BytesScannedCutoffPerQuery" in work) == is_new
        (build,) = cloud.client("codebuild").batch_get_projects(names=[physical(cfn, "Build")])[
            "projects"
        ]
        assert build.get("description") == ("d" if is_new else None)
        assert build["timeoutInMinutes"] == (30 if is_new else 60)
        shown = deploy.get_deployment_group(**group)["deploymentGroupInfo"]
        assert shown["autoRollbackConfiguration"]["enabled"] == is_new
        assert shown["deploymentGroupId"] == group_id
        now = api.get_stage(**stage)
        assert (now["StageVariables"], now["CreatedDate"]) == ({"v": "1"} if is_new else {}, made)


def test_a_document_gets_versions_or_is_made_again_as_it_asks(cloud: InProcessCloud, cfn: Any):
    ssm = cloud.client("ssm")

    def document(said: str, **more: Any) -> dict[str, Any]:
        content = {"schemaVersion": "2.2", "description": said, "mainSteps": []}
        return of("SSM::Document", Name="doc", Content=content, DocumentType="Command", **more)

    assert create(cfn, template(Doc=document("one", UpdateMethod="NewVersion"))) == (
        "CREATE_COMPLETE"
    )
    for said in ("two", "three"):
        assert change(cfn, Doc=document(said, UpdateMethod="NewVersion")) == "UPDATE_COMPLETE"
    assert json.loads(ssm.get_document(Name="doc")["Content"])["description"] == "three"
    assert ssm.describe_document(Name="doc")["Document"]["LatestVersion"] == "3"
    assert change(cfn, Doc=document("four")) == "UPDATE_COMPLETE"
    assert json.loads(ssm.get_document(Name="doc")["Content"])["description"] == "four"
    assert ssm.describe_document(Name="doc")["Document"]["LatestVersion"] == "1"


def test_what_is_not_there_is_not_changed(cloud: InProcessCloud):
    glue, athena = cloud.client("glue"), cloud.client("athena")
    job = {"Role": ROLE, "Command": {"Name": "glueetl"}}
    for call, code in (
        (lambda: glue.update_job(JobName="n", JobUpdate=job), "EntityNotFoundException"),
        (lambda: glue.update_crawler(Name="n"), "EntityNotFoundException"),
        (lambda: athena.update_work_group(WorkGroup="n"), "InvalidRequestException"),
        (
            lambda: cloud.client("codebuild").update_project(name="none"),
            "ResourceNotFoundException",
        ),
        (
            lambda: cloud.client("elasticache").modify_cache_cluster(CacheClusterId="none"),
            "CacheClusterNotFound",
        ),
    ):
        assert refused_with(call) == code


def refused_with(call: Any) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001
        return str(getattr(error, "response", {}).get("Error", {}).get("Code", error))
    return ""


def rule(port: int) -> dict[str, Any]:
    return {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "CidrIp": "10.0.0.0/8"}


# EC2 takes long to import.
@pytest.mark.slow
def test_a_group_s_own_rules_change_and_those_of_others_stay(cloud: InProcessCloud, cfn: Any):
    ec2 = cloud.client("ec2")

    def group(*ports: int, **more: Any) -> dict[str, Any]:
        rules = {"SecurityGroupIngress": [rule(port) for port in ports]} if ports else {}
        return of("EC2::SecurityGroup", GroupDescription="d", **rules, **more)

    def ports(group_id: str) -> list[int]:
        (found,) = ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"]
        return sorted(each["FromPort"] for each in found["IpPermissions"])

    assert create(cfn, template(Group=group(1, 2))) == "CREATE_COMPLETE"
    name = physical(cfn, "Group")
    other = {"IpProtocol": "tcp", "FromPort": 9, "ToPort": 9, "IpRanges": [{"CidrIp": "1.0.0.0/8"}]}
    ec2.authorize_security_group_ingress(GroupId=name, IpPermissions=[other])
    egress = [{**rule(5), "CidrIp": "0.0.0.0/0"}]
    assert change(cfn, Group=group(2, 3, SecurityGroupEgress=egress)) == "UPDATE_COMPLETE"
    assert (physical(cfn, "Group"), ports(name)) == (name, [2, 3, 9])
    (found,) = ec2.describe_security_groups(GroupIds=[name])["SecurityGroups"]
    assert [each.get("FromPort") for each in found["IpPermissionsEgress"]] == [5]
    # What fails is taken back, and what is said no more goes; without rules for it everything goes out.
    failing = of("SQS::Queue", QueueName="not a name")
    assert change(cfn, Group=group(4), Q={**failing, "DependsOn": "Group"}) == (
        "UPDATE_ROLLBACK_COMPLETE"
    )
    assert ports(name) == [2, 3, 9]
    assert change(cfn, Group=group()) == "UPDATE_COMPLETE"
    assert ports(name) == [9]
    (found,) = ec2.describe_security_groups(GroupIds=[name])["SecurityGroups"]
    assert [each["IpProtocol"] for each in found["IpPermissionsEgress"]] == ["-1"]


def test_a_rest_api_keeps_its_address(cloud: InProcessCloud, cfn: Any):
    api = cloud.client("apigateway")

    def resources(**more: Any) -> dict[str, Any]:
        plan = {"Quota": {"Limit": 5, "Period": "DAY"}} if more else {}
        return {
            "Api": of("ApiGateway::RestApi", Name="a", **more),
            "Plan": of("ApiGateway::UsagePlan", Description="p", **plan),
            "Key": of("ApiGateway::ApiKey", Enabled=bool(more)),
        }

    assert create(cfn, template(**resources())) == "CREATE_COMPLETE"
    ids = [physical(cfn, name) for name in ("Api", "Plan", "Key")]
    more = {
        "BinaryMediaTypes": ["image/png"],
        "DisableExecuteApiEndpoint": True,
        "EndpointConfiguration": {"Types": ["REGIONAL"]},
        "MinimumCompressionSize": 10,
        "Policy": ALLOW,
        "Tags": [{"Key": "k", "Value": "v"}],
    }
    for is_more in (True, False, True):
        assert change(cfn, **resources(**(more if is_more else {}))) == "UPDATE_COMPLETE"
        assert [physical(cfn, name) for name in ("Api", "Plan", "Key")] == ids
        shown = api.get_rest_api(restApiId=ids[0])
        assert shown.get("binaryMediaTypes", []) == (["image/png"] if is_more else [])
        assert shown["disableExecuteApiEndpoint"] is is_more
        assert shown["endpointConfiguration"]["types"] == ["REGIONAL" if is_more else "EDGE"]
        assert shown.get("minimumCompressionSize") == (10 if is_more else None)
        assert ("policy" in shown) == is_more
        assert shown.get("tags", {}).get("k") == ("v" if is_more else None)
        quota = api.get_usage_plan(usagePlanId=ids[1]).get("quota")
        assert quota == ({"limit": 5, "offset": 0, "period": "DAY"} if is_more else None)
        assert api.get_api_key(apiKey=ids[2])["enabled"] is is_more


# EC2 takes long to import.
@pytest.mark.slow
def test_a_subnet_group_stays_when_it_is_changed(cloud: InProcessCloud, cfn: Any):
    def resources(said: str) -> dict[str, Any]:
        return {
            "Vpc": of("EC2::VPC", CidrBlock="10.0.0.0/16"),
            "Subnet": of("EC2::Subnet", VpcId={"Ref": "Vpc"}, CidrBlock="10.0.1.0/24"),
            "Group": of(
                "RDS::DBSubnetGroup",
                DBSubnetGroupDescription=said,
                SubnetIds=[{"Ref": "Subnet"}],
            ),
        }

    assert create(cfn, template(**resources("one"))) == "CREATE_COMPLETE"
    name = physical(cfn, "Group")
    for said in ("two", "three"):
        assert change(cfn, **resources(said)) == "UPDATE_COMPLETE"
        (found,) = cloud.client("rds").describe_db_subnet_groups(DBSubnetGroupName=name)[
            "DBSubnetGroups"
        ]
        assert found["DBSubnetGroupDescription"] == said


def test_a_pool_without_a_name_keeps_the_one_that_it_got(cloud: InProcessCloud, cfn: Any):
    users, identities = cloud.client("cognito-idp"), cloud.client("cognito-identity")

    def resources(days: int, *, guests: bool) -> dict[str, Any]:
        pool = {"Fn::GetAtt": ["Pool", "UserPoolId"]}
        return {
            "Pool": of("Cognito::UserPool", UserPoolTags={"days": str(days)}),
            "Client": of("Cognito::UserPoolClient", UserPoolId=pool, RefreshTokenValidity=days),
            "Guests": of("Cognito::IdentityPool", AllowUnauthenticatedIdentities=guests),
        }

    def names() -> list[str]:
        pool = users.describe_user_pool(UserPoolId=physical(cfn, "Pool"))["UserPool"]
        client = users.describe_user_pool_client(
            UserPoolId=pool["Id"], ClientId=physical(cfn, "Client")
        )["UserPoolClient"]
        guests = identities.describe_identity_pool(IdentityPoolId=physical(cfn, "Guests"))
        return [pool["Name"], client["ClientName"], guests["IdentityPoolName"]]

    assert create(cfn, template(**resources(1, guests=True)), **NAMED) == "CREATE_COMPLETE"
    before = names()
    assert [name.rpartition("-")[0] for name in before] == ["s-Pool", "s-Client", "s-Guests"]
    assert change(cfn, **resources(2, guests=False)) == "UPDATE_COMPLETE"
    assert names() == before


def test_properties_that_strangers_write_reach_the_service(cloud: InProcessCloud, cfn: Any):
    def resources(*, later: bool) -> dict[str, Any]:
        attached = {"Users": [{"Ref": "User"}], "Groups": [{"Ref": "Group"}]}
        tags = [{"Key": "k" if later else "old", "Value": "v"}]
        pattern = {"source": ["a"]}
        return {
            "Key": of("KMS::Key", EnableKeyRotation=True, RotationPeriodInDays=120, Enabled=later),
            "User": of("IAM::User", UserName="u"),
            "Group": of("IAM::Group", GroupName="g"),
            "Policy": of("IAM::ManagedPolicy", PolicyDocument=ALLOW, **(attached if later else {})),
            "Rule": of("Events::Rule", Name="r", EventPattern=pattern, Tags=tags),
            "Pool": of(
                "Cognito::UserPool", MfaConfiguration="OPTIONAL", EnabledMfas=["SOFTWARE_TOKEN_MFA"]
            ),
        }

    assert create(cfn, template(**resources(later=False)), **NAMED) == "CREATE_COMPLETE"
    kms, events = cloud.client("kms"), cloud.client("events")
    key = physical(cfn, "Key")
    assert not kms.describe_key(KeyId=key)["KeyMetadata"]["Enabled"]
    pool = cloud.client("cognito-idp").get_user_pool_mfa_config(UserPoolId=physical(cfn, "Pool"))
    assert pool["SoftwareTokenMfaConfiguration"] == {"Enabled": True}
    assert change(cfn, **resources(later=True)) == "UPDATE_COMPLETE"
    assert kms.describe_key(KeyId=key)["KeyMetadata"]["Enabled"]
    arn = events.describe_rule(Name="r")["Arn"]
    keys = {tag["Key"] for tag in events.list_tags_for_resource(ResourceARN=arn)["Tags"]}
    assert {key for key in keys if not key.startswith("aws:")} == {"k"}
    holders = cloud.client("iam").list_entities_for_policy(PolicyArn=physical(cfn, "Policy"))
    assert [user["UserName"] for user in holders["PolicyUsers"]] == ["u"]
    assert [group["GroupName"] for group in holders["PolicyGroups"]] == ["g"]


CHECK = {"Type": "HTTP", "FullyQualifiedDomainName": "example.com", "RequestInterval": 30}
CONNECTION = {"ConnectionType": "NETWORK", "Name": "a", "Description": "a"}
TABLE = {"Name": "a", "Description": "a"}
DATABASE = {"D": of("Glue::Database", CatalogId="000000000000", DatabaseInput={"Name": "inside"})}


@pytest.mark.parametrize(
    ("kind", "others", "name", "value", "kept", "fixed"),
    [
        ("Route53::HealthCheck", {}, "HealthCheckConfig", CHECK,
         {"FullyQualifiedDomainName": "example.org"}, {"RequestInterval": 10}),
        ("Glue::Connection", {"CatalogId": "000000000000"}, "ConnectionInput", CONNECTION,
         {"Description": "b"}, {"Name": "b"}),
        ("Glue::Table", {"CatalogId": "000000000000", "DatabaseName": {"Ref": "D"}}, "TableInput",
         TABLE, {"Description": "b"}, {"Name": "b"}),
    ],
)  # fmt: skip
def test_nested_properties_replace_where_aws_says_so(
    cfn: Any,
    kind: str,
    others: dict[str, Any],
    name: str,
    value: dict[str, Any],
    kept: dict[str, Any],
    fixed: dict[str, Any],
) -> None:
    def resources(**members: Any) -> dict[str, Any]:
        made = {"R": of(kind, **others, **{name: {**value, **members}})}
        return {**made, **DATABASE} if "D" in str(others) else made

    assert create(cfn, template(**resources())) == "CREATE_COMPLETE"
    first = physical(cfn, "R")
    assert change(cfn, **resources(**kept)) == "UPDATE_COMPLETE"
    assert physical(cfn, "R") == first
    assert change(cfn, **resources(**kept, **fixed)) == "UPDATE_COMPLETE"
    assert physical(cfn, "R") != first
