"""Resources whose settings a template gives, changes and no longer has: what their services show after each."""

from __future__ import annotations

import json
import re
from typing import Any
from unittest import mock

from tests.api.cloudformation.test_declared import delete, detect, drifts, outputs, refused
from tests.api.cloudformation.test_stacks import create, physical, template, update
from tests.api.cloudformation.test_updated_in_place import NAMED, change, of
from tests.support.cloud import InProcessCloud
from tests.support.emr import RELEASE, ROLES


def body(attributes: tuple[str, ...] = (), **resources: Any) -> dict[str, Any]:
    """Return a template that shows attributes such as `Group.Arn`."""
    shown = {name.replace(".", ""): {"Value": {"Fn::GetAtt": name}} for name in attributes}
    return {**template(**resources), **({"Outputs": shown} if shown else {})}


def own_tags(tags: list[dict[str, str]]) -> dict[str, str]:
    listed = {each.get("Key") or each["TagKey"]: each for each in tags}
    return {
        key: each["Value"] if "Value" in each else each["TagValue"]
        for key, each in listed.items()
        if not key.startswith("aws:")
    }


def test_a_log_group_s_settings_come_and_go(cloud: InProcessCloud, cfn: Any):
    logs = cloud.client("logs")
    key = cloud.client("kms").create_key()["KeyMetadata"]["Arn"]

    def group(**settings: Any) -> dict[str, Any]:
        line = of("Logs::LogStream", LogGroupName={"Ref": "Group"})
        return {"Group": of("Logs::LogGroup", **settings), "Line": line}

    whole = {"RetentionInDays": "7", "KmsKeyId": key, "Tags": [{"Key": "k", "Value": "1"}]}
    assert create(cfn, body(("Group.Arn",), **group(**whole))) == "CREATE_COMPLETE"
    name = physical(cfn, "Group")
    assert re.fullmatch(r"s-Group-[A-Z0-9]{12}", name)
    arn = f"arn:aws:logs:us-east-1:000000000000:log-group:{name}"
    assert outputs(cfn, "s") == {"GroupArn": f"{arn}:*"}

    def shown() -> tuple[Any, Any, dict[str, str]]:
        (found,) = logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        tags = logs.list_tags_for_resource(resourceArn=arn)["tags"]
        own = {key: value for key, value in tags.items() if not key.startswith("aws:")}
        return found.get("retentionInDays"), found.get("kmsKeyId"), own

    (line,) = logs.describe_log_streams(logGroupName=name)["logStreams"]
    assert line["logStreamName"] == physical(cfn, "Line")
    assert shown() == (7, key, {"k": "1"})
    assert change(cfn, **group()) == "UPDATE_COMPLETE"
    assert shown() == (None, None, {})
    assert change(cfn, **group(**{**whole, "RetentionInDays": 3})) == "UPDATE_COMPLETE"
    assert shown() == (3, key, {"k": "1"})
    assert physical(cfn, "Group") == name
    # What went by other hands is no obstacle.
    logs.delete_log_group(logGroupName=name)
    delete(cfn, "s")


def test_a_parameter_s_value_description_and_tags_follow(cloud: InProcessCloud, cfn: Any):
    ssm = cloud.client("ssm")

    def parameter(**settings: Any) -> dict[str, Any]:
        return {"P": of("SSM::Parameter", Type="String", **settings)}

    first = parameter(Value=1, Description="d", AllowedPattern=r"\d", Tags={"k": "1", "old": "o"})
    assert create(cfn, body(("P.Value", "P.Type"), **first)) == "CREATE_COMPLETE", refused(cfn, "s")
    name = physical(cfn, "P")
    assert re.fullmatch(r"CFN-P-[A-Za-z0-9]{12}", name)
    assert outputs(cfn, "s") == {"PValue": "1", "PType": "String"}

    def shown() -> tuple[str, str, dict[str, str]]:
        (found,) = ssm.describe_parameters(ParameterFilters=[{"Key": "Name", "Values": [name]}])[
            "Parameters"
        ]
        tags = ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId=name)["TagList"]
        value = ssm.get_parameter(Name=name)["Parameter"]["Value"]
        return value, found.get("Description", ""), own_tags(tags)

    assert shown() == ("1", "d", {"k": "1", "old": "o"})
    later = parameter(Value="2", AllowedPattern=r"\d", Tags={"k": "2"})
    assert update(cfn, body(("P.Value",), **later)) == "UPDATE_COMPLETE"
    assert outputs(cfn, "s") == {"PValue": "2"}
    assert shown() == ("2", "", {"k": "2"})
    assert change(cfn, **parameter(Value="x", AllowedPattern=r"\d")) == "UPDATE_ROLLBACK_COMPLETE"
    assert shown() == ("2", "", {"k": "2"})
    assert physical(cfn, "P") == name
    ssm.delete_parameter(Name=name)
    delete(cfn, "s")


ALARM = {
    "ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": "2", "MetricName": "m", "Namespace": "n",
    "Period": "60", "Statistic": "Sum", "Threshold": "1.5",
}  # fmt: skip


def test_an_alarm_s_settings_are_those_of_its_template_alone(cloud: InProcessCloud, cfn: Any):
    watch = cloud.client("cloudwatch")

    def alarm(**settings: Any) -> dict[str, Any]:
        return {"A": of("CloudWatch::Alarm", **ALARM, **settings)}

    topic = "arn:aws:sns:us-east-1:000000000000:t"
    more = {"AlarmDescription": "d", "ActionsEnabled": "false", "AlarmActions": [topic]}
    tagged = {"Tags": [{"Key": "k", "Value": "1"}], "Dimensions": [{"Name": "S", "Value": "s"}]}
    assert create(cfn, body(("A.Arn",), **alarm(**more, **tagged))) == "CREATE_COMPLETE"
    name = physical(cfn, "A")
    arn = f"arn:aws:cloudwatch:us-east-1:000000000000:alarm:{name}"
    assert outputs(cfn, "s") == {"AArn": arn}

    def shown() -> dict[str, Any]:
        (found,) = watch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
        tags = watch.list_tags_for_resource(ResourceARN=arn)["Tags"]
        members = ("EvaluationPeriods", "Threshold", "ActionsEnabled", "AlarmActions", "Dimensions")
        found_members = {member: found.get(member) for member in members}
        return {**found_members, "d": found.get("AlarmDescription") or "", "tags": own_tags(tags)}

    whole = {
        "EvaluationPeriods": 2,
        "Threshold": 1.5,
        "ActionsEnabled": False,
        "AlarmActions": [topic],
    }
    dimensions = [{"Name": "S", "Value": "s"}]
    assert shown() == {**whole, "Dimensions": dimensions, "d": "d", "tags": {"k": "1"}}
    assert change(cfn, **alarm()) == "UPDATE_COMPLETE"
    bare = {
        **whole,
        "ActionsEnabled": True,
        "AlarmActions": [],
        "Dimensions": [],
        "d": "",
        "tags": {},
    }
    assert shown() == bare
    assert physical(cfn, "A") == name
    watch.delete_alarms(AlarmNames=[name])
    delete(cfn, "s")
    refusal = create(cfn, template(**alarm(EvaluationInterval=10)))
    assert refusal == "ROLLBACK_COMPLETE"
    assert "headrace does not support the property EvaluationInterval" in refused(cfn, "s")[-1]


def test_a_security_configuration_is_replaced_and_may_be_gone(cloud: InProcessCloud, cfn: Any):
    emr = cloud.client("emr")

    def configuration(encrypted: bool) -> dict[str, Any]:
        settings = {"EncryptionConfiguration": {"EnableInTransitEncryption": encrypted}}
        return {"C": of("EMR::SecurityConfiguration", SecurityConfiguration=settings)}

    assert create(cfn, template(**configuration(False))) == "CREATE_COMPLETE"
    first = physical(cfn, "C")
    shown = emr.describe_security_configuration(Name=first)["SecurityConfiguration"]
    assert json.loads(shown)["EncryptionConfiguration"] == {"EnableInTransitEncryption": False}
    assert change(cfn, **configuration(True)) == "UPDATE_COMPLETE", refused(cfn, "s")
    second = physical(cfn, "C")
    listed = emr.list_security_configurations()["SecurityConfigurations"]
    assert (first != second, [each["Name"] for each in listed]) == (True, [second])
    emr.delete_security_configuration(Name=second)
    delete(cfn, "s")


POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "kms:*", "Resource": "*"},
    ],
}


def test_a_key_is_switched_rotated_and_described(cloud: InProcessCloud, cfn: Any):
    kms = cloud.client("kms")

    def key(**settings: Any) -> dict[str, Any]:
        return {"K": of("KMS::Key", KeyPolicy=POLICY, PendingWindowInDays=9, **settings)}

    first = key(Description="d", Enabled="false", Tags=[{"Key": "k", "Value": "1"}])
    assert create(cfn, body(("K.Arn", "K.KeyId"), **first)) == "CREATE_COMPLETE", refused(cfn, "s")
    name = physical(cfn, "K")
    arn = f"arn:aws:kms:us-east-1:000000000000:key/{name}"
    assert outputs(cfn, "s") == {"KArn": arn, "KKeyId": name}

    def shown() -> tuple[str, bool, bool, dict[str, str]]:
        found = kms.describe_key(KeyId=name)["KeyMetadata"]
        rotates = kms.get_key_rotation_status(KeyId=name)["KeyRotationEnabled"]
        tags = own_tags(kms.list_resource_tags(KeyId=name)["Tags"])
        return found["Description"], found["Enabled"], rotates, tags

    assert shown() == ("d", False, False, {"k": "1"})
    # A disabled key is never enabled on the way, and its rotation cannot change.
    from moto.kms.models import KmsBackend

    with mock.patch.object(KmsBackend, "enable_key") as enable:
        assert change(cfn, **key(Enabled=False)) == "UPDATE_COMPLETE"
    assert not enable.called
    rotating = key(EnableKeyRotation="true", RotationPeriodInDays="120", Enabled=False)
    assert change(cfn, **rotating) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Set Enabled to true to modify the EnableKeyRotation property." in str(refused(cfn, "s"))
    assert shown() == ("", False, False, {})
    assert change(cfn, **key(EnableKeyRotation=True)) == "UPDATE_COMPLETE"
    assert shown() == ("", True, True, {})
    statement = {**POLICY["Statement"][0], "Sid": "new"}
    policed = of("KMS::Key", KeyPolicy={**POLICY, "Statement": [statement]}, PendingWindowInDays=9)
    assert change(cfn, K=policed) == "UPDATE_COMPLETE"
    assert shown() == ("", True, False, {})
    policy = json.loads(kms.get_key_policy(KeyId=name, PolicyName="default")["Policy"])
    assert policy["Statement"] == [statement]
    assert physical(cfn, "K") == name
    assert change(cfn, **key(KeySpec="RSA_2048", KeyUsage="SIGN_VERIFY")) == "UPDATE_COMPLETE"
    second = physical(cfn, "K")
    assert kms.describe_key(KeyId=name)["KeyMetadata"]["KeyState"] == "PendingDeletion"
    kms.schedule_key_deletion(KeyId=second, PendingWindowInDays=7)
    delete(cfn, "s")


def test_a_deleted_stack_s_key_waits_as_long_as_its_template_says(cloud: InProcessCloud, cfn: Any):
    kms = cloud.client("kms")
    resources = {"K": of("KMS::Key", PendingWindowInDays=9), "Other": of("KMS::Key")}
    assert create(cfn, template(**resources)) == "CREATE_COMPLETE"
    keys = [physical(cfn, name) for name in resources]
    made = kms.describe_key(KeyId=keys[0])["KeyMetadata"]["CreationDate"]
    delete(cfn, "s")
    dates = [kms.describe_key(KeyId=key)["KeyMetadata"]["DeletionDate"] for key in keys]
    assert [(date - made).days for date in dates] == [9, 30]


def test_a_rule_and_its_targets_follow_its_template(cloud: InProcessCloud, cfn: Any):
    events = cloud.client("events")
    events.create_event_bus(Name="bus")

    def rule(**settings: Any) -> dict[str, Any]:
        return {"R": of("Events::Rule", EventBusName="bus", **settings)}

    queues = [f"arn:aws:sqs:us-east-1:000000000000:q{number}" for number in range(3)]
    targets = [{"Id": f"t{number}", "Arn": queue} for number, queue in enumerate(queues)]
    pattern = {"source": ["a"]}
    first = {"Description": "d", "State": "DISABLED", "Tags": [{"Key": "k", "Value": "1"}]}
    whole = rule(EventPattern=pattern, Targets=targets[:2], **first)
    assert create(cfn, body(("R.Arn",), **whole)) == "CREATE_COMPLETE", refused(cfn, "s")
    name = physical(cfn, "R")
    bus, _, own = name.partition("|")
    assert (bus, own.rpartition("-")[0]) == ("bus", "s-R")
    arn = f"arn:aws:events:us-east-1:000000000000:rule/bus/{own}"
    assert outputs(cfn, "s") == {"RArn": arn}

    def shown() -> dict[str, Any]:
        found = events.describe_rule(Name=own, EventBusName="bus")
        listed = events.list_targets_by_rule(Rule=own, EventBusName="bus")["Targets"]
        tags = own_tags(events.list_tags_for_resource(ResourceARN=arn)["Tags"])
        return {
            "pattern": json.loads(found["EventPattern"]),
            "targets": [each["Id"] for each in listed],
            "is": (found.get("Description") or "", found["State"], tags),
        }

    before = {"pattern": pattern, "targets": ["t0", "t1"], "is": ("d", "DISABLED", {"k": "1"})}
    assert shown() == before
    other = rule(EventPattern='{"source": ["b"]}', Targets=targets[1:])
    assert change(cfn, **other) == "UPDATE_COMPLETE", refused(cfn, "s")
    after = {"pattern": {"source": ["b"]}, "targets": ["t1", "t2"], "is": ("", "ENABLED", {})}
    assert shown() == after
    failing = of("SQS::Queue", QueueName="not a name", RedrivePolicy={})
    assert change(cfn, **whole, Q={**failing, "DependsOn": "R"}) == "UPDATE_ROLLBACK_COMPLETE"
    assert shown() == after
    assert physical(cfn, "R") == name
    moved = of("Events::Rule", Name="named", ScheduleExpression="rate(5 minutes)")
    assert change(cfn, R=moved) == "UPDATE_COMPLETE", refused(cfn, "s")
    assert physical(cfn, "R") == "named"
    assert events.list_rules(EventBusName="bus")["Rules"] == []
    # From a schedule to a pattern: what the template no longer has is not sent.
    named = of("Events::Rule", Name="named", EventPattern=pattern, Targets=targets[:1])
    assert change(cfn, R=named) == "UPDATE_COMPLETE", refused(cfn, "s")
    found = events.describe_rule(Name="named")
    assert (found.get("ScheduleExpression"), json.loads(found["EventPattern"])) == (None, pattern)
    assert (
        change(cfn, R=of("Events::Rule", Name="named", EventPattern=pattern)) == "UPDATE_COMPLETE"
    )
    assert events.list_targets_by_rule(Rule="named")["Targets"] == []
    events.delete_rule(Name="named")
    delete(cfn, "s")


def test_a_managed_policy_keeps_five_versions_and_its_holders(cloud: InProcessCloud, cfn: Any):
    iam = cloud.client("iam")

    def policy(action: str, **settings: Any) -> dict[str, Any]:
        statement = {"Effect": "Allow", "Action": action, "Resource": "*"}
        document = {"Version": "2012-10-17", "Statement": [statement]}
        people = {name: of("IAM::User", UserName=name) for name in ("u", "v")}
        return {**people, "P": of("IAM::ManagedPolicy", PolicyDocument=document, **settings)}

    def users(*names: str) -> dict[str, Any]:
        return {"Users": [{"Ref": name} for name in names]}

    first = body(("P.PolicyArn", "P.PolicyId"), **policy("s3:0", Path="/a/", **users("u")))
    assert create(cfn, first, **NAMED) == "CREATE_COMPLETE", refused(cfn, "s")
    arn = physical(cfn, "P")
    assert re.fullmatch(r"arn:aws:iam::000000000000:policy/a/s-P-[A-Z0-9]{12}", arn)
    found = iam.get_policy(PolicyArn=arn)["Policy"]
    assert outputs(cfn, "s") == {"PPolicyArn": arn, "PPolicyId": found["PolicyId"]}
    for number in range(1, 7):
        changed = policy(f"s3:{number}", Path="/a/", **users("u", "v"))
        assert change(cfn, **changed) == "UPDATE_COMPLETE", refused(cfn, "s")
    versions = iam.list_policy_versions(PolicyArn=arn)["Versions"]
    assert len(versions) == 5
    (current,) = [each["VersionId"] for each in versions if each["IsDefaultVersion"]]
    shown = iam.get_policy_version(PolicyArn=arn, VersionId=current)["PolicyVersion"]["Document"]
    assert shown["Statement"][0]["Action"] == "s3:6"

    def holders(named: str) -> list[str]:
        listed = iam.list_entities_for_policy(PolicyArn=named)["PolicyUsers"]
        return sorted(each["UserName"] for each in listed)

    assert holders(arn) == ["u", "v"]
    assert change(cfn, **policy("s3:6", Path="/a/", **users("v"))) == "UPDATE_COMPLETE"
    assert (physical(cfn, "P"), holders(arn)) == (arn, ["v"])
    moved = policy("s3:6", Path="/a/", Description="d", **users("v"))
    assert change(cfn, **moved) == "UPDATE_COMPLETE", refused(cfn, "s")
    second = physical(cfn, "P")
    assert (arn != second, holders(second)) == (True, ["v"])
    listed = iam.list_policies(Scope="Local")["Policies"]
    assert [each["Arn"] for each in listed] == [second]
    delete(cfn, "s")
    assert iam.list_policies(Scope="Local")["Policies"] == []


def test_a_stage_keeps_its_access_log_with_and_without_settings_of_methods(
    cloud: InProcessCloud, cfn: Any
):
    api = {"RestApiId": {"Ref": "Api"}}
    written = {"DestinationArn": {"Fn::GetAtt": "Group.Arn"}, "Format": "$context.requestId"}
    every = {"HttpMethod": "*", "ResourcePath": "/*", "LoggingLevel": "INFO"}

    def stage(**settings: Any) -> dict[str, Any]:
        return of("ApiGateway::Stage", **api, DeploymentId={"Ref": "Made"}, **settings)

    method = of(
        "ApiGateway::Method", **api, ResourceId={"Fn::GetAtt": "Api.RootResourceId"},
        HttpMethod="GET", AuthorizationType="NONE", Integration={"Type": "MOCK"},
    )  # fmt: skip
    body = template(
        Group=of("Logs::LogGroup"),
        Api=of("ApiGateway::RestApi", Name="a"),
        Get=method,
        Made={**of("ApiGateway::Deployment", **api), "DependsOn": "Get"},
        One=stage(StageName="one", AccessLogSetting=written),
        Two=stage(StageName="two", AccessLogSetting=written, MethodSettings=[every]),
    )
    assert create(cfn, body) == "CREATE_COMPLETE"
    stages = cloud.client("apigateway").get_stages(restApiId=physical(cfn, "Api"))["item"]
    shown = {one["stageName"]: one["accessLogSettings"] for one in stages}
    assert [one["format"] for one in shown.values()] == ["$context.requestId"] * 2
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    said = [e for e in events if "to no access log" in e.get("ResourceStatusReason", "")]
    assert {e["LogicalResourceId"] for e in said} == {"One", "Two"}


def test_a_boolean_becomes_text_in_small_letters_wherever_a_service_keeps_text(
    cloud: InProcessCloud, cfn: Any
):
    """As CloudFormation writes it: a function compares its variable with "true", Spark its property."""
    state = {"StartAt": "A", "States": {"A": {"Type": "Pass", "Result": "${on}", "End": True}}}
    role, switch = "arn:aws:iam::000000000000:role/r", {"on": True, "rate": 1.5}
    body = template(
        Function=of(
            "Lambda::Function", Runtime="python3.12", Handler="index.f", Code={"ZipFile": "f = print"},
            Role=role, Environment={"Variables": {"DEBUG": True, "N2": 2}},
        ),
        Machine=of(
            "StepFunctions::StateMachine", RoleArn=role, DefinitionSubstitutions=switch,
            DefinitionString=json.dumps(state).replace('"${on}"', "${on}"),
        ),
        Base=of("Glue::Database", CatalogId="0", DatabaseInput={"Name": "b", "Parameters": switch}),
        Table={
            **of("Glue::Table", CatalogId="0", DatabaseName="b", TableInput={
                "Name": "t", "Parameters": switch,
                "StorageDescriptor": {"SerdeInfo": {"Parameters": switch}},
            }),
            "DependsOn": "Base",
        },
        Cluster=of(
            "EMR::Cluster", Name="c", ReleaseLabel=RELEASE, **ROLES,
            Instances={"MasterInstanceGroup": {"InstanceCount": 1, "InstanceType": "m5.xlarge"}},
            Configurations=[{"Classification": "spark-defaults", "ConfigurationProperties": switch}],
        ),
        Group=of(
            "RDS::DBParameterGroup", Family="mysql8.0", Description="d", Parameters={"autocommit": True}
        ),
        Parameter=of("SSM::Parameter", Type="String", Value="v", Tags={"on": True}),
    )  # fmt: skip
    assert create(cfn, body) == "CREATE_COMPLETE"
    names = {name: physical(cfn, name) for name in body["Resources"]}
    of_function = cloud.client("lambda").get_function_configuration(FunctionName=names["Function"])
    assert of_function["Environment"]["Variables"] == {"DEBUG": "true", "N2": "2"}
    machine = cloud.client("stepfunctions").describe_state_machine(stateMachineArn=names["Machine"])
    assert json.loads(machine["definition"])["States"]["A"]["Result"] is True
    glue, written = cloud.client("glue"), {"on": "true", "rate": "1.5"}
    table = glue.get_table(DatabaseName="b", Name="t")["Table"]
    assert table["Parameters"] == written
    assert table["StorageDescriptor"]["SerdeInfo"]["Parameters"] == written
    assert glue.get_database(Name="b")["Database"]["Parameters"] == written
    cluster = cloud.client("emr").describe_cluster(ClusterId=names["Cluster"])["Cluster"]
    assert cluster["Configurations"][0]["Properties"] == written
    given = cloud.client("rds").describe_db_parameters(DBParameterGroupName=names["Group"])
    assert {one["ParameterName"]: one["ParameterValue"] for one in given["Parameters"]} == {
        "autocommit": "true"
    }
    tags = cloud.client("ssm").list_tags_for_resource(
        ResourceType="Parameter", ResourceId=names["Parameter"]
    )["TagList"]
    assert own_tags(tags) == {"on": "true"}


def test_an_index_s_insights_are_ignored_as_a_table_s_are(cloud: InProcessCloud, cfn: Any):
    insights = {"ContributorInsightsSpecification": {"Enabled": True}}

    def table(*names: str) -> dict[str, Any]:
        keys = [{"AttributeName": "id", "KeyType": "HASH"}]
        every = {"KeySchema": keys, "Projection": {"ProjectionType": "ALL"}, **insights}
        indexes = [{"IndexName": name, **every} for name in names]
        attributes = [{"AttributeName": "id", "AttributeType": "S"}]
        return of(
            "DynamoDB::Table", AttributeDefinitions=attributes, BillingMode="PAY_PER_REQUEST",
            KeySchema=keys, GlobalSecondaryIndexes=indexes, **insights,
        )  # fmt: skip

    assert create(cfn, template(Table=table("one"))) == "CREATE_COMPLETE"
    assert update(cfn, template(Table=table("one", "two"))) == "UPDATE_COMPLETE"
    shown = cloud.client("dynamodb").describe_table(TableName=physical(cfn, "Table"))["Table"]
    assert {one["IndexName"] for one in shown["GlobalSecondaryIndexes"]} == {"one", "two"}


def test_a_secret_s_replicas_come_go_and_end_with_it(cloud: InProcessCloud, cfn: Any):
    secrets = cloud.client("secretsmanager")

    def secret(*regions: str) -> dict[str, Any]:
        replicas = [{"Region": region} for region in regions]
        return template(
            Secret=of("SecretsManager::Secret", SecretString="1", ReplicaRegions=replicas)
        )

    def shown() -> set[str]:
        told = secrets.describe_secret(SecretId=physical(cfn, "Secret"))
        return {one["Region"] for one in told.get("ReplicationStatus", ())}

    assert create(cfn, secret("eu-west-1", "eu-central-1")) == "CREATE_COMPLETE"
    before = physical(cfn, "Secret")
    assert shown() == {"eu-west-1", "eu-central-1"}
    assert update(cfn, secret("eu-west-1", "us-west-2")) == "UPDATE_COMPLETE"
    assert (physical(cfn, "Secret"), shown()) == (before, {"eu-west-1", "us-west-2"})
    delete(cfn, "s")
    assert secrets.list_secrets()["SecretList"] == []


def test_an_empty_description_that_a_service_does_not_show_is_no_drift(cfn: Any):
    allowed = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    document = {"Version": "2012-10-17", "Statement": [allowed]}
    policy = of("IAM::ManagedPolicy", Description="", PolicyDocument=document)
    assert create(cfn, template(P=policy), Capabilities=["CAPABILITY_IAM"]) == "CREATE_COMPLETE"
    detect(cfn, "s")
    assert drifts(cfn, "s", "IN_SYNC").keys() == {"P"}
