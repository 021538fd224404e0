"""Changes for which moto has no call, or a call that leaves something as it was: each shows in the service afterwards.

What a resource has beside its properties stays: a job's runs, a user's keys, who holds a policy, a document's versions.
"""

from __future__ import annotations

import json
from typing import Any

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
    run = glue.start_job_run(JobName=job)["JobRunId"]
    assert change(cfn, **resources()) == "UPDATE_COMPLETE"
    assert physical(cfn, "Job") == job
    shown = glue.get_job(JobName=job)["Job"]
    assert not shown.get("Description")
    assert shown.get("MaxRetries", 0) == 0
    assert glue.get_job_run(JobName=job, RunId=run)["JobRun"]["Id"] == run
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
