"""Resource types that are data: each is made, read, changed, deleted and made again, in moto's services.

What a stack gives to them is read back, call by call; `not_read_back.json` has what AWS's own reads do not show.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from headrace.moto.without_effect import DROPPED_FILE
from headrace.services.cloudformation import resources
from headrace.services.cloudformation.fidelity import fidelity_of
from headrace.services.cloudformation.resources import (
    TYPES,
    list_declared_types,
    resource_type,
)
from headrace.services.cloudformation.resources.declared_calls import list_passed, shape_of
from headrace.services.cloudformation.resources.schemas import list_names
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.template.template import template_of
from headrace.services.iam.answers import moto_tables
from scripts import dropped_members, resource_schemas, resource_types
from tests.api.cloudformation.test_stacks import create, physical, update
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.read_whole import Recorder, unread
from tests.support.server import wait_until

FOLDER = Path(__file__).parent / "declared"
PROPERTY_TYPES = Path(resources.__file__).with_name("property_types.json")
EXAMPLES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
NOT_READ_BACK: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("not_read_back.json").read_text()
)
# By day these are made and have not drifted; they are the dearest, and others have calls of the same forms.
LONG = {"analytics", "compute", "databases", "ec2", "edge", "networks", "operations", "platforms"}
# What the service behind a type does not say, or says only of resources that are otherwise made.
UNSAID = {
    "AWS::ElastiCache::ReplicationGroup": {"EffectiveDurability"},
    "AWS::ApiGatewayV2::DomainName": {"RegionalDomainName", "RegionalHostedZoneId"},
    "AWS::AppConfig::ConfigurationProfile": {"KmsKeyArn"},
    "AWS::CloudFront::KeyGroup": {"LastModifiedTime"},
    "AWS::CloudTrail::Trail": {"SnsTopicArn"},
    "AWS::Config::ConfigRule": {"Compliance"},
    "AWS::Config::ConfigurationRecorder": {"ResourceARN"},
    "AWS::Cognito::UserPoolClient": {"ClientSecret"},
    "AWS::EC2::NetworkInterface": {"PrimaryIpv6Address", "PublicIpDnsNameOptions"},
    "AWS::EC2::VPCCidrBlock": {"IpSource", "Ipv6AddressAttribute"},
    "AWS::Logs::DeliverySource": {"Status", "StatusReason"},
    "AWS::EC2::NatGateway": {"AutoProvisionZones", "AutoScalingIps", "EniId", "RouteTableId"},
    "AWS::EC2::Subnet": {"BlockPublicAccessStates"},
    "AWS::ElasticLoadBalancingV2::TargetGroup": {"LoadBalancerArns"},
    "AWS::OpenSearchServerless::Collection": {"FipsEndpoints"},
    "AWS::OpenSearchService::Domain": {"DomainEndpointV2", "DomainEndpoints", "ServiceSoftwareOptions"},
    "AWS::Pipes::Pipe": {"StateReason"},
    "AWS::RDS::DBCluster": {"StorageEncryptionType", "StorageThroughput"},
    "AWS::RDS::DBInstance": {
        "AutomaticRestartTime", "CertificateDetails", "IsStorageConfigUpgradeAvailable", "ListenerEndpoint",
        "PercentProgress", "ReadReplicaDBClusterIdentifiers", "ReadReplicaDBInstanceIdentifiers",
        "ResumeFullAutomationModeTime", "SecondaryAvailabilityZone", "StatusInfos", "StorageOperationPercentProgress",
        "StorageOperationStatus",
    },
    "AWS::Redshift::Cluster": {"ClusterNamespaceArn", "DeferMaintenanceIdentifier", "MasterPasswordSecretArn"},
    "AWS::StepFunctions::StateMachine": {"StateMachineRevisionId"},
}  # fmt: skip
# Made from what a test cannot have in moto: principals, functions that answer, a layer's files.
APART = {
    "AWS::Lambda::LayerVersion",
    "AWS::Lambda::LayerVersionPermission",
    "AWS::IoT::PolicyPrincipalAttachment",
    "AWS::IoT::ThingPrincipalAttachment",
    "AWS::SecretsManager::RotationSchedule",
}

TYPES_DECLARED = set(list_declared_types())
NAMED = {"Capabilities": ["CAPABILITY_NAMED_IAM"]}
# Lists, which are no output.
_LISTS = (
    "CidrBlockAssociations", "Ipv6CidrBlocks", "NameServers", "SecurityGroups", "DnsEntries",
    "NetworkInterfaceIds", "CreationTimestamp", "IpAddresses", "State", "ResourceArns", "Endpoints", "ConsoleURLs",
    "SecondaryPrivateIpAddresses",
)  # fmt: skip


def refused(cfn: Any, name: str) -> list[str]:
    """Return why resources of a stack failed."""
    events = cfn.describe_stack_events(StackName=name)["StackEvents"]
    return [
        f"{e['LogicalResourceId']}: {e.get('ResourceStatusReason')}"
        for e in events
        if e["ResourceStatus"].endswith("FAILED")
    ]


def outputs(cfn: Any, name: str) -> dict[str, str]:
    (stack,) = cfn.describe_stacks(StackName=name)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


def shown(resources: dict[str, Any]) -> dict[str, Any]:
    """Return outputs: Ref of each resource, and each attribute at its top that its type has."""
    found: dict[str, Any] = {}
    for name, resource in resources.items():
        found[f"{name}Ref"] = {"Value": {"Ref": name}}
        kind = resource["Type"]
        read_only = list_names(kind, "readOnly")
        objects = {attribute.partition(".")[0] for attribute in read_only if "." in attribute}
        for attribute in read_only:
            if "." in attribute or attribute in objects or attribute in UNSAID.get(kind, ()):
                continue
            value: Any = {"Fn::GetAtt": [name, attribute]}
            found[f"{name}{attribute}"] = {"Value": {"Fn::Sub": ["${x}", {"x": value}]}}
    return found


def delete(cfn: Any, name: str) -> None:
    stack_id = cfn.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
    cfn.delete_stack(StackName=name)
    wait_until(
        lambda: not cfn.describe_stacks(StackName=stack_id)["Stacks"][0]["StackStatus"].endswith("PROGRESS"),
        what="the deletion",
    )  # fmt: skip
    (stack,) = cfn.describe_stacks(StackName=stack_id)["Stacks"]
    assert stack["StackStatus"] == "DELETE_COMPLETE", stack.get("StackStatusReason")


def changed_by(resources: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {**resource, "Properties": {**resource["Properties"], **change.get(name, {})}}
        for name, resource in resources.items()
    }


def stack_of(cloud: InProcessCloud, name: str) -> Stack:
    found = cloud.cloud.cloudformation.stacks.find(ACCOUNT, REGION, name)
    assert found is not None
    return found


def names_itself(resource: dict[str, Any]) -> bool:
    """Whether a template says by what name or key a resource stands in its service."""
    kind = resource_type(resource["Type"])
    assert kind is not None
    return bool(kind.find or kind.named_by) and (
        not kind.named_by or bool(kind.name_of(resource["Properties"]))
    )


def detect(cfn: Any, name: str, **more: Any) -> dict[str, Any]:
    started = cfn.detect_stack_drift(StackName=name, **more)["StackDriftDetectionId"]
    return dict(cfn.describe_stack_drift_detection_status(StackDriftDetectionId=started))


def drifts(cfn: Any, name: str, *statuses: str) -> dict[str, dict[str, Any]]:
    given = {"StackResourceDriftStatusFilters": list(statuses)} if statuses else {}
    found = cfn.describe_stack_resource_drifts(StackName=name, **given)["StackResourceDrifts"]
    return {each["LogicalResourceId"]: each for each in found}


def unexplained(cloud: InProcessCloud, recorder: Recorder) -> dict[str, list[str]]:
    """Return what was given in the recorded calls, and neither a read shows nor NOT_READ_BACK explains."""
    missing = unread(cloud.cloud.gateway, list(recorder.calls), moto_tables())
    new = {name: set(paths) - NOT_READ_BACK.get(name, {}).keys() for name, paths in missing.items()}
    return {name: sorted(paths) for name, paths in new.items() if paths}


@pytest.mark.parametrize("group", EXAMPLES)
def test_types_are_made_read_back_changed_deleted_and_made_again(
    cloud: InProcessCloud, cfn: Any, group: str, nightly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = EXAMPLES[group]
    resources = example["resources"]
    body = {"Resources": resources, "Outputs": shown(resources)}
    listed = [name for name in body["Outputs"] if name.endswith(_LISTS)]
    for name in listed:
        del body["Outputs"][name]

    recorder = Recorder()
    with monkeypatch.context() as recording:
        recorder.watch(recording)
        assert create(cfn, body, name=group, **NAMED) == "CREATE_COMPLETE", refused(cfn, group)
    first = outputs(cfn, group)
    assert all(first.values()), first
    assert detect(cfn, group)["DetectionStatus"] == "DETECTION_COMPLETE"
    assert drifts(cfn, group, "MODIFIED", "DELETED") == {}
    if group in LONG and not nightly:
        return
    assert unexplained(cloud, recorder) == {}
    if example["change"]:
        changed = {**body, "Resources": changed_by(resources, example["change"])}
        assert update(cfn, changed, name=group, **NAMED) == "UPDATE_COMPLETE", refused(cfn, group)
        # In place: whoever holds the physical id still has the resource.
        refs = {name: value for name, value in first.items() if name.endswith("Ref")}
        assert refs.items() <= outputs(cfn, group).items()
    for name, resource in stack_of(cloud, group).resources.items():
        if resources[name]["Type"] in TYPES_DECLARED and names_itself(resources[name]):
            other = {"Resources": {name: {**resources[name], "Properties": resource.properties}}}
            other["Resources"][name].pop("DependsOn", None)
            assert create(cfn, other, name=f"other-{name}", **NAMED) == "ROLLBACK_COMPLETE", name
            assert "already exists" in refused(cfn, f"other-{name}")[-1], refused(
                cfn, f"other-{name}"
            )
    delete(cfn, group)
    assert create(cfn, body, name=group, **NAMED) == "CREATE_COMPLETE", refused(cfn, group)
    delete(cfn, group)


def test_every_declared_type_has_an_example() -> None:
    shown_types = {
        r["Type"] for example in EXAMPLES.values() for r in example["resources"].values()
    }
    assert TYPES_DECLARED - shown_types == APART


def test_no_value_of_an_example_is_dropped_but_what_moto_drops() -> None:
    by_moto = {
        "AWS::CloudFront::Distribution": ["DistributionConfig.Origins[0].OriginAccessControlId"],
        "AWS::Budgets::Budget": ["NotificationsWithSubscribers[0].Subscribers[0]"],
    }
    for example in EXAMPLES.values():
        for name, resource in example["resources"].items():
            kind = resource_type(resource["Type"])
            assert kind is not None
            if kind.dropped is not None:
                assert kind.dropped(resource["Properties"]) == by_moto.get(kind.name, []), name


def test_the_schemas_are_aws_s() -> None:
    assert resource_schemas.FILE.read_text() == resource_schemas.text(), (
        "python -m scripts.resource_schemas"
    )
    assert resource_schemas.NAMES_FILE.read_text() == resource_schemas.text_of_names(), (
        "python -m scripts.resource_schemas"
    )
    assert resource_schemas.TYPES_FILE.read_text() == resource_schemas.text_of_types(), (
        "python -m scripts.resource_schemas"
    )


def test_what_moto_drops_is_written_down() -> None:
    """A newer botocore or moto has members that nothing takes: python -m scripts.dropped_members names them."""
    written, expected = json.loads(DROPPED_FILE.read_text()), json.loads(dropped_members.text())
    news = {
        f"{service}:{operation}.{member}"
        for service, operations in expected.items()
        for operation, members in operations.items()
        for member in set(members) - set(written.get(service, {}).get(operation, ()))
    }
    assert not news, f"moto drops members that are not declared: {sorted(news)}"
    assert written == expected, "python -m scripts.dropped_members"


def test_a_property_that_moto_drops_is_ignored_and_one_of_its_body_is_not() -> None:
    service = resource_type("AWS::ECS::Service").properties
    assert (service["EnableExecuteCommand"], service["DesiredCount"]) == ("ignored", "stored")
    assert resource_type("AWS::IoT::TopicRule").properties["TopicRulePayload"] == "stored"


def test_what_goes_nowhere_is_declared_ignored() -> None:
    document = (
        {
            "Resources": {
                "Queue": {
                    "Type": "AWS::StepFunctions::StateMachine",
                    "Properties": {"RoleArn": "r", "LoggingConfiguration": {"Level": "ALL", "Colour": "red"}},
                },
                "Target": {
                    "Type": "AWS::ElasticLoadBalancingV2::TargetGroup",
                    "Properties": {"Targets": [{"Id": "i"}]},
                },
            }
        }
    )  # fmt: skip
    template = template_of(json.dumps(document), document)
    rows = {(row["resource"], row["property"]): row["level"] for row in fidelity_of(template)}
    assert rows[("Queue", "LoggingConfiguration.Colour")] == "ignored"
    assert rows[("Queue", "LoggingConfiguration")] == "stored"
    assert rows[("Target", "Targets")] == "ignored"


def test_a_name_that_is_taken_is_refused_and_what_has_it_stays(
    cloud: InProcessCloud, cfn: Any
) -> None:
    scheduler = cloud.client("scheduler")
    (default,) = scheduler.list_schedule_groups()["ScheduleGroups"]
    assert default["CreationDate"] == default["LastModificationDate"]
    assert scheduler.list_schedule_groups()["ScheduleGroups"] == [default]
    scheduler.create_schedule_group(Name="mine")
    body = {
        "Resources": {
            "Group": {"Type": "AWS::Scheduler::ScheduleGroup", "Properties": {"Name": "mine"}},
        }
    }

    assert create(cfn, body) == "ROLLBACK_COMPLETE"
    assert "with identifier 'mine' already exists" in refused(cfn, "s")[-1]
    assert scheduler.get_schedule_group(Name="mine")["State"] == "ACTIVE"


def test_a_property_that_must_be_given_is_named(cfn: Any) -> None:
    body = {"Resources": {"Machine": {"Type": "AWS::StepFunctions::StateMachine"}}}
    assert create(cfn, body) == "ROLLBACK_COMPLETE"
    assert refused(cfn, "s")[-1] == (
        "Machine: Property validation failure: [The property {/RoleArn} is required]"
    )


def test_a_secret_is_made_by_its_rules(cloud: InProcessCloud, cfn: Any) -> None:
    rules = {
        "SecretStringTemplate": '{"user": "me"}',
        "GenerateStringKey": "password",
        "PasswordLength": 12,
    }
    secret = {"Type": "AWS::SecretsManager::Secret", "Properties": {"GenerateSecretString": rules}}
    body = {"Resources": {"Secret": secret}, "Outputs": {"Id": {"Value": {"Ref": "Secret"}}}}
    assert create(cfn, body) == "CREATE_COMPLETE"
    client = cloud.client("secretsmanager")
    value = client.get_secret_value(SecretId=outputs(cfn, "s")["Id"])["SecretString"]
    assert json.loads(value)["user"] == "me"
    assert len(json.loads(value)["password"]) == 12


def test_a_killed_creation_s_id_is_known_where_no_answer_has_it() -> None:
    def made(kind: str, **properties: Any) -> str | None:
        declared = resource_type(kind)
        assert declared is not None
        assert declared.made is not None
        context = SimpleNamespace(generate_name=lambda *_, **__: "s-L-1", merge_tags=dict)
        return declared.made(cast("Any", context), properties)

    method = {"RestApiId": "a", "ResourceId": "r", "HttpMethod": "GET"}
    assert made("AWS::ApiGateway::Method", **method) == "a|r|GET"
    assert made("AWS::Events::Rule", EventBusName="b") == "b|s-L-1"
    assert made("AWS::S3::BucketPolicy", Bucket="b") == "b"
    assert made("AWS::KMS::Key") is None
    assert made("AWS::AppConfig::Deployment", ApplicationId="a", EnvironmentId="e") is None


def test_a_type_is_written_by_hand_or_declared() -> None:
    assert not TYPES_DECLARED & set(TYPES)


def test_unknown_types_are_refused_with_whose_fault_they_are(cfn: Any) -> None:
    names = ("AWS::SQS::Queu", "AWS::Sausage::Maker", "AWS::GameLift::Fleet")
    body = {"Resources": {f"R{number}": {"Type": name} for number, name in enumerate(names)}}
    with pytest.raises(ClientError) as caught:
        cfn.create_stack(StackName="s", TemplateBody=json.dumps(body))
    assert caught.value.response["Error"]["Message"] == (
        "Template format error: Unrecognized resource types: [AWS::GameLift::Fleet, AWS::SQS::Queu,"
        " AWS::Sausage::Maker] (AWS has AWS::GameLift::Fleet, which headrace does not support; not in"
        " headrace: AWS::SQS::Queu, AWS::Sausage::Maker; nearest: AWS::SQS::Queue)"
    )


def test_the_page_of_types_is_true() -> None:
    assert resource_types.PAGE.read_text() == resource_types.page(), (
        "python -m scripts.resource_types"
    )


def test_what_a_template_no_longer_says_is_emptied(cloud: InProcessCloud, cfn: Any) -> None:
    def app(**properties: Any) -> dict[str, Any]:
        given = {"Name": "app", **properties}
        return {"Resources": {"A": {"Type": "AWS::AppConfig::Application", "Properties": given}}}

    assert create(cfn, app(Description="d")) == "CREATE_COMPLETE"
    assert update(cfn, app()) == "UPDATE_COMPLETE", refused(cfn, "s")
    name = physical(cfn, "A")
    found = cloud.client("appconfig").get_application(ApplicationId=name)
    assert not found.get("Description")


def test_a_partition_with_other_values_is_another_one(cloud: InProcessCloud, cfn: Any) -> None:
    def table(values: list[str], **parameters: str) -> dict[str, Any]:
        of = {"CatalogId": ACCOUNT, "DatabaseName": "db"}
        keys = {"Name": "t", "PartitionKeys": [{"Name": "day", "Type": "string"}]}
        partition = {
            **of,
            "TableName": {"Ref": "T"},
            "PartitionInput": {"Values": values, "Parameters": parameters},
        }
        return {
            "Resources": {
                "T": {"Type": "AWS::Glue::Table", "Properties": {**of, "TableInput": keys}},
                "P": {"Type": "AWS::Glue::Partition", "Properties": partition},
            }
        }  # fmt: skip

    def partitions() -> list[tuple[list[str], dict[str, str]]]:
        listed = glue.get_partitions(DatabaseName="db", TableName="t")["Partitions"]
        return [(one["Values"], one["Parameters"]) for one in listed]

    glue = cloud.client("glue")
    glue.create_database(DatabaseInput={"Name": "db"})
    assert create(cfn, table(["1"])) == "CREATE_COMPLETE", refused(cfn, "s")
    first = physical(cfn, "P")
    assert update(cfn, table(["1"], a="b")) == "UPDATE_COMPLETE", refused(cfn, "s")
    assert (physical(cfn, "P"), partitions()) == (first, [(["1"], {"a": "b"})])
    assert update(cfn, table(["2"], a="b")) == "UPDATE_COMPLETE", refused(cfn, "s")
    assert physical(cfn, "P") != first
    assert partitions() == [(["2"], {"a": "b"})]


def test_a_property_is_passed_in_the_form_of_the_call_s_member() -> None:
    types = json.loads(PROPERTY_TYPES.read_text())

    def fits(known: Any, shape: Any) -> bool:
        if known in ("Boolean", "String", "Integer", "Double"):
            return shape.type_name not in ("structure", "map")
        is_object = isinstance(known, str) and known.startswith("#")
        return not is_object or shape.type_name in ("structure", "map", "list", "string")

    unfit = [
        (declared.type, call.operation, name)
        for declared in list_declared_types().values()
        for call in (*declared.create, *declared.update)
        for name, member in list_passed(declared, call).items()
        if member and name in types[declared.type][""][0]
        if not fits(types[declared.type][""][0][name], shape_of(declared, call).members[member])
    ]
    assert unfit == []


def test_the_switches_of_a_method_s_parameters_are_texts_too(
    cloud: InProcessCloud, cfn: Any
) -> None:
    header = "method.response.header"
    switches = {f"{header}.A": "'*'", f"{header}.B": "true", f"{header}.C": True}
    body = {
        "Api": {"Type": "AWS::ApiGateway::RestApi", "Properties": {"Name": "a"}},
        "Method": {
            "Type": "AWS::ApiGateway::Method",
            "Properties": {
                "RestApiId": {"Ref": "Api"},
                "ResourceId": {"Fn::GetAtt": ["Api", "RootResourceId"]},
                "HttpMethod": "GET",
                "AuthorizationType": "NONE",
                "RequestParameters": {"method.request.querystring.q": "no"},
                "Integration": {"Type": "MOCK"},
                "MethodResponses": [{"StatusCode": "200", "ResponseParameters": switches}],
            },
        },
    }
    assert create(cfn, {"Resources": body}) == "CREATE_COMPLETE"
    api = cloud.client("apigateway")
    root = {"restApiId": physical(cfn, "Api"), "httpMethod": "GET"}
    root["resourceId"] = api.get_resources(restApiId=root["restApiId"])["items"][0]["id"]
    method = api.get_method(**root)
    assert method["requestParameters"] == {"method.request.querystring.q": False}
    answered = method["methodResponses"]["200"]["responseParameters"]
    assert answered == {f"{header}.A": False, f"{header}.B": True, f"{header}.C": True}


def test_an_alarm_needs_no_name(cloud: InProcessCloud, cfn: Any) -> None:
    alarm = {
        "ComparisonOperator": "GreaterThanThreshold",
        "EvaluationPeriods": "1",
        "MetricName": "Errors",
        "Namespace": "AWS/Lambda",
        "Period": "300",
        "Statistic": "Sum",
        "Threshold": "5",
    }
    body = {"Alarm": {"Type": "AWS::CloudWatch::Alarm", "Properties": alarm}}
    assert create(cfn, {"Resources": body}) == "CREATE_COMPLETE"
