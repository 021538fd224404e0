"""Drift: resources changed or deleted by other hands, found by reading them back.

The answer's form is recorded (test_drift_detection_on_lambda of LocalStack's
tests/aws/services/cloudformation/api/test_drift_detection.py, 11-11-2022).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.services.cloudformation.changes.live_state import differences
from headrace.services.cloudformation.resources.reading import as_wanted
from tests.api.cloudformation.test_declared import detect, drifts
from tests.api.cloudformation.test_declared import refused as why
from tests.api.cloudformation.test_stacks import create, physical, refused, update
from tests.support.cloud import InProcessCloud


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("drift")) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def cfn(cloud: InProcessCloud) -> Any:
    return cloud.client("cloudformation")


READS = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": "000000000000"},
            "Action": "sqs:ReceiveMessage",
            "Resource": "*",
        }
    ],
}
KEY_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": "arn:aws:iam::000000000000:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
    ],
}
RESOURCES: dict[str, Any] = {
    "Stream": {
        "Type": "AWS::Kinesis::Stream",
        "Properties": {"ShardCount": "1", "Tags": [{"Key": "team", "Value": "a"}]},
    },
    "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": 30}},
    "Gone": {"Type": "AWS::SQS::Queue"},
    "Bucket": {
        "Type": "AWS::S3::Bucket",
        "Properties": {
            "VersioningConfiguration": {"Status": "Enabled"},
            "LifecycleConfiguration": {"Rules": [{"Status": "Enabled", "ExpirationInDays": 3}]},
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [
                    {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
                ]
            },
        },
    },
    "Key": {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": KEY_POLICY}},
    "Table": {
        "Type": "AWS::DynamoDB::Table",
        "Properties": {
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
            # By its id; the table answers its ARN.
            "SSESpecification": {"SSEEnabled": "true", "KMSMasterKeyId": {"Ref": "Key"}},
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
            "TimeToLiveSpecification": {"AttributeName": "until", "Enabled": True},
            "KinesisStreamSpecification": {"StreamArn": {"Fn::GetAtt": ["Stream", "Arn"]}},
        },
    },
    "Permission": {
        "Type": "AWS::SQS::QueuePolicy",
        "Properties": {"Queues": [{"Ref": "Queue"}], "PolicyDocument": READS},
    },
}


def test_what_was_changed_or_deleted_by_other_hands_is_found(cloud: InProcessCloud, cfn: Any):
    assert create(cfn, {"Resources": RESOURCES}, "s", Tags=[{"Key": "of", "Value": "stack"}])
    (before,) = cfn.describe_stacks(StackName="s")["Stacks"]
    assert before["DriftInformation"] == {"StackDriftStatus": "NOT_CHECKED"}
    status = detect(cfn, "s")
    assert (status["DetectionStatus"], status["StackDriftStatus"]) == (
        "DETECTION_COMPLETE",
        "IN_SYNC",
    )
    assert drifts(cfn, "s", "MODIFIED", "DELETED") == {}

    stream, queue, bucket = (physical(cfn, name) for name in ("Stream", "Queue", "Bucket"))
    kinesis, sqs, s3 = (cloud.client(name) for name in ("kinesis", "sqs", "s3"))
    kinesis.add_tags_to_stream(StreamName=stream, Tags={"team": "b", "new": "n"})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "31"})
    sqs.delete_queue(QueueUrl=physical(cfn, "Gone"))
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    s3.delete_bucket_lifecycle(Bucket=bucket)
    cloud.client("dynamodb").update_continuous_backups(
        TableName=physical(cfn, "Table"),
        PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": False},
    )
    status = detect(cfn, "s")
    assert (status["StackDriftStatus"], status["DriftedStackResourceCount"]) == ("DRIFTED", 5)

    found = drifts(cfn, "s")
    assert {name: each["StackResourceDriftStatus"] for name, each in found.items()} == {
        "Stream": "MODIFIED",
        "Queue": "MODIFIED",
        "Gone": "DELETED",
        "Bucket": "MODIFIED",
        "Key": "IN_SYNC",
        "Table": "MODIFIED",
    }  # nothing of Permission, which cannot be read (documented: such resources are not included)
    assert drifts(cfn, "s", "NOT_CHECKED") == {}
    (recovery,) = found["Table"]["PropertyDifferences"]
    assert recovery["PropertyPath"].endswith("/PointInTimeRecoveryEnabled")
    assert found["Queue"]["PropertyDifferences"] == [
        {
            "PropertyPath": "/VisibilityTimeout",
            "ExpectedValue": "30",
            "ActualValue": "31",
            "DifferenceType": "NOT_EQUAL",
        }
    ]
    assert json.loads(found["Queue"]["ActualProperties"]) == {"VisibilityTimeout": 31}
    kinds = {
        (each["PropertyPath"], each["DifferenceType"])
        for each in found["Bucket"]["PropertyDifferences"]
    }
    assert kinds == {
        ("/VersioningConfiguration/Status", "NOT_EQUAL"),
        ("/LifecycleConfiguration", "REMOVE"),
    }
    # The stack's own tag is no difference.
    tags = {
        (each["PropertyPath"], each["ActualValue"])
        for each in found["Stream"]["PropertyDifferences"]
    }
    assert tags == {("/Tags/0/Value", "b"), ("/Tags/1", '{"Key":"new","Value":"n"}')}

    assert set(drifts(cfn, "s", "DELETED")) == {"Gone"}
    (stack,) = cfn.describe_stacks(StackName="s")["Stacks"]
    assert stack["DriftInformation"]["StackDriftStatus"] == "DRIFTED"
    resource = cfn.describe_stack_resource(StackName="s", LogicalResourceId="Gone")
    information = resource["StackResourceDetail"]["DriftInformation"]
    assert information["StackResourceDriftStatus"] == "DELETED"

    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "30"})
    one = cfn.detect_stack_resource_drift(StackName="s", LogicalResourceId="Queue")
    assert one["StackResourceDrift"]["StackResourceDriftStatus"] == "IN_SYNC"


def _made_and_served() -> dict[str, Any]:
    role = "arn:aws:iam::000000000000:role/any"
    api, function = {"Ref": "Api"}, {"Fn::GetAtt": ["F", "Arn"]}
    method = {"HttpMethod": "GET", "AuthorizationType": "NONE", "Integration": {"Type": "MOCK"}}
    root = {"Fn::GetAtt": ["Api", "RootResourceId"]}
    setting = {"HttpMethod": "*", "ResourcePath": "/*", "ThrottlingBurstLimit": 5}
    level = {"HttpMethod": "*", "ResourcePath": "/*", "LoggingLevel": "INFO"}
    properties = {
        ("F", "Lambda::Function"): {
            "Runtime": "python3.12", "Handler": "index.f", "Role": role, "Code": {"ZipFile": "def f(*_): 0"},
        },
        ("Url", "Lambda::Url"): {
            "TargetFunctionArn": function, "AuthType": "AWS_IAM", "Cors": {"AllowOrigins": ["https://a.b"]},
        },
        ("Api", "ApiGateway::RestApi"): {"Name": "staged"},
        ("Method", "ApiGateway::Method"): {"RestApiId": api, "ResourceId": root, **method},
        ("Deployed", "ApiGateway::Deployment"): {"RestApiId": api},
        ("Stage", "ApiGateway::Stage"): {
            "RestApiId": api, "StageName": "prod", "DeploymentId": {"Ref": "Deployed"}, "Description": "made",
            "Variables": {"a": "1"}, "MethodSettings": [setting, level], "Tags": [{"Key": "k", "Value": "v"}],
        },
    }  # fmt: skip
    made = {
        name: {"Type": f"AWS::{kind}", "Properties": p} for (name, kind), p in properties.items()
    }
    made["Deployed"]["DependsOn"] = "Method"
    return {"Resources": made}


def test_stages_and_urls_are_read_back(cloud: InProcessCloud, cfn: Any):
    assert create(cfn, _made_and_served(), "served") == "CREATE_COMPLETE"
    detect(cfn, "served")
    assert {"Url", "Stage"} <= drifts(cfn, "served", "IN_SYNC").keys()
    assert drifts(cfn, "served", "MODIFIED", "DELETED") == {}

    cloud.client("lambda").update_function_url_config(
        FunctionName=physical(cfn, "F", "served"), AuthType="NONE"
    )
    cloud.client("apigateway").update_stage(
        restApiId=physical(cfn, "Api", "served"), stageName="prod",
        patchOperations=[{"op": "replace", "path": "/variables/a", "value": "2"}],
    )  # fmt: skip
    detect(cfn, "served")
    changed = {
        name: [(d["PropertyPath"], d["ActualValue"]) for d in drift["PropertyDifferences"]]
        for name, drift in drifts(cfn, "served", "MODIFIED").items()
    }
    assert changed == {"Url": [("/AuthType", "NONE")], "Stage": [("/Variables/a", "2")]}


ALL = {"ProjectionType": "ALL"}
KEYS = [{"AttributeName": "id", "KeyType": "HASH"}]
IGNORED = {"ContributorInsightsSpecification": {"Enabled": True}}
DEFINITION = "openapi: 3.0.1\ninfo: {title: api, version: 2020-01-01}\npaths: {}\n"


def test_what_a_service_writes_in_another_form_is_no_drift(cloud: InProcessCloud, cfn: Any):
    """A metric ALL, a backup's configuration, dates, an API's name beside a definition in YAML."""
    s3, role = cloud.client("s3"), "arn:aws:iam::000000000000:role/any"
    s3.create_bucket(Bucket="definitions")
    s3.put_object(Bucket="definitions", Key="api.yaml", Body=DEFINITION)
    bucket = {"BucketARN": "arn:aws:s3:::definitions", "RoleARN": role}
    target = {"Arn": "arn:aws:sqs:us-east-1:000000000000:q", "RoleArn": role}
    properties: dict[str, tuple[str, dict[str, Any]]] = {
        "Stream": ("Kinesis::Stream", {"ShardCount": 1, "DesiredShardLevelMetrics": ["ALL"]}),
        "Delivery": (
            "KinesisFirehose::DeliveryStream",
            {
                "ExtendedS3DestinationConfiguration": {
                    **bucket, "S3BackupMode": "Enabled",
                    "S3BackupConfiguration": {**bucket, "Prefix": "all/"},
                }
            },
        ),
        "Schedule": (
            "Scheduler::Schedule",
            {
                "ScheduleExpression": "rate(1 hour)", "FlexibleTimeWindow": {"Mode": "OFF"}, "Target": target,
                "StartDate": "2050-01-01T00:00:00.000Z", "EndDate": "2050-02-01T01:00:00+01:00",
            },
        ),
        "Table": (
            "DynamoDB::Table",
            {
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "KeySchema": KEYS, "BillingMode": "PAY_PER_REQUEST",
                "GlobalSecondaryIndexes": [{"IndexName": "i", "KeySchema": KEYS, "Projection": ALL, **IGNORED}],
            },
        ),
        "Cluster": (
            "Redshift::Cluster",
            {
                "ClusterType": "single-node", "NodeType": "ra3.large", "DBName": "d", "IamRoles": [role],
                "MasterUsername": "me", "MasterUserPassword": "Secret12345",
            },
        ),
        "Api": (
            "ApiGateway::RestApi",
            {"Name": "mine", "BodyS3Location": {"Bucket": "definitions", "Key": "api.yaml"}},
        ),
    }  # fmt: skip
    made = {
        name: {"Type": f"AWS::{kind}", "Properties": p} for name, (kind, p) in properties.items()
    }
    assert (
        create(cfn, {"Resources": made}, "forms", Capabilities=["CAPABILITY_IAM"])
        == "CREATE_COMPLETE"
    )
    detect(cfn, "forms")
    assert drifts(cfn, "forms", "MODIFIED", "DELETED") == {}
    assert drifts(cfn, "forms", "IN_SYNC").keys() == made.keys()

    cloud.client("kinesis").disable_enhanced_monitoring(
        StreamName=physical(cfn, "Stream", "forms"), ShardLevelMetrics=["IncomingBytes"]
    )
    cloud.client("scheduler").update_schedule(
        Name=physical(cfn, "Schedule", "forms"), ScheduleExpression="rate(1 hour)",
        FlexibleTimeWindow={"Mode": "OFF"}, Target={"Arn": target["Arn"], "RoleArn": role},
        StartDate="2050-01-01T00:00:00Z", EndDate="2050-03-01T00:00:00Z",
    )  # fmt: skip
    detect(cfn, "forms")
    found = drifts(cfn, "forms", "MODIFIED")
    assert found.keys() == {"Stream", "Schedule"}
    (date,) = found["Schedule"]["PropertyDifferences"]
    assert (date["PropertyPath"], date["ActualValue"]) == ("/EndDate", "2050-03-01T00:00:00.000Z")


def test_all_metrics_of_a_stream_become_one(cloud: InProcessCloud, cfn: Any):
    def body(*names: str) -> str:
        stream = {"ShardCount": 1, "DesiredShardLevelMetrics": names}
        return json.dumps(
            {"Resources": {"S": {"Type": "AWS::Kinesis::Stream", "Properties": stream}}}
        )

    def metrics() -> list[str]:
        stream = {"StreamName": physical(cfn, "S", "metrics")}
        summary = cloud.client("kinesis").describe_stream_summary(**stream)
        return summary["StreamDescriptionSummary"]["EnhancedMonitoring"][0]["ShardLevelMetrics"]

    assert create(cfn, json.loads(body("ALL")), "metrics") == "CREATE_COMPLETE"
    assert len(metrics()) == 7
    assert update(cfn, json.loads(body("IncomingBytes")), "metrics") == "UPDATE_COMPLETE"
    assert metrics() == ["IncomingBytes"]


def test_what_cannot_be_checked_is_refused(cfn: Any):
    handle = {"Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}
    create(cfn, {"Resources": handle}, "one")
    code, message = refused(
        cfn.detect_stack_resource_drift, StackName="one", LogicalResourceId="Handle"
    )
    assert (code, "not supported" in message) == ("ValidationError", True)
    failed = {"S": {"Type": "AWS::Kinesis::Stream", "Properties": {"ShardCount": 1, "Name": "?"}}}
    assert create(cfn, {"Resources": failed}, "rolled-back") == "ROLLBACK_COMPLETE"
    _, message = refused(cfn.detect_stack_drift, StackName="rolled-back")
    assert message.endswith("while it is in [ROLLBACK_COMPLETE] state")
    assert refused(cfn.detect_stack_drift, StackName="none")[1] == "Stack [none] does not exist"
    assert refused(cfn.detect_stack_drift, StackName="one", LogicalResourceIds=["X"])[0]
    assert refused(cfn.describe_stack_drift_detection_status, StackDriftDetectionId="x" * 36)[0]


def test_lists_are_compared_as_sets_and_names_without_regard_to_case():
    wanted = {"Targets": ["a", "b"], "Rules": [{"Name": "x", "On": "true"}, {"Name": "y"}]}
    seen = as_wanted(
        wanted, {"targets": ["b", "a"], "rules": [{"name": "y"}, {"name": "x", "on": True}]}
    )
    assert list(differences(wanted, seen)) == []
    seen = as_wanted(wanted, {"targets": ["b", "c", "d"], "rules": [{"name": "x", "on": False}]})
    assert [
        (each["PropertyPath"], each["DifferenceType"]) for each in differences(wanted, seen)
    ] == [
        ("/Targets/0", "NOT_EQUAL"),
        ("/Targets/2", "ADD"),
        ("/Rules/0/On", "NOT_EQUAL"),
        ("/Rules/1", "REMOVE"),
    ]


def test_names_that_differ_in_capitals_alone_are_in_sync(cfn: Any) -> None:
    """As AWS's schemas say by `propertyTransform`; an option group's engine has none there."""
    login = {"MasterUsername": "me", "MasterUserPassword": "secret12345"}
    resources = {
        "Instance": {
            "Type": "AWS::RDS::DBInstance",
            "Properties": {
                "Engine": "MySQL",
                "DBInstanceIdentifier": "MyDb",
                "DBInstanceClass": "db.t3.micro",
                "AllocatedStorage": "20",
                **login,
            },
        },
        "Cluster": {
            "Type": "AWS::RDS::DBCluster",
            "Properties": {"Engine": "Aurora-MySQL", "DBClusterIdentifier": "MyCluster", **login},
        },
        "Options": {
            "Type": "AWS::RDS::OptionGroup",
            "Properties": {
                "EngineName": "MySQL",
                "MajorEngineVersion": "8.0",
                "OptionGroupDescription": "d",
            },
        },
    }
    create(cfn, {"Resources": resources}, "capitals")
    detect(cfn, "capitals")
    found = drifts(cfn, "capitals")
    assert found["Instance"]["StackResourceDriftStatus"] == "IN_SYNC"
    assert found["Cluster"]["StackResourceDriftStatus"] == "IN_SYNC"
    (difference,) = found["Options"]["PropertyDifferences"]
    assert difference["PropertyPath"] == "/EngineName"


def test_what_an_answer_calls_by_another_name_is_compared(cloud: InProcessCloud, cfn: Any) -> None:
    role = "arn:aws:iam::000000000000:role/any"
    wait = {"StartAt": "A", "States": {"A": {"Type": "Wait", "Seconds": 1, "End": True}}}
    text = json.dumps(wait, indent=1)
    rule = {"Sql": "SELECT * FROM 'a'", "Actions": [{"Sqs": {"QueueUrl": "q", "RoleArn": role}}]}
    properties: dict[str, tuple[str, dict[str, Any]]] = {
        "Machine": (
            "StepFunctions::StateMachine",
            {
                "RoleArn": role,
                "DefinitionString": text.replace("1,", "${seconds},"),
                "DefinitionSubstitutions": {"seconds": "1"},
            },
        ),
        # Of the forms of a definition, AWS reads back the string alone.
        "Unseen": ("StepFunctions::StateMachine", {"RoleArn": role, "Definition": wait}),
        "Rule": ("IoT::TopicRule", {"RuleName": "renamed", "TopicRulePayload": rule}),
        "Thing": ("IoT::Thing", {"AttributePayload": {"Attributes": {"a": "1"}}}),
        "Pool": ("Cognito::UserPool", {"UserPoolName": "one"}),
    }
    made = {
        name: {"Type": f"AWS::{kind}", "Properties": given}
        for name, (kind, given) in properties.items()
    }
    assert create(cfn, {"Resources": made}, "renamed") == "CREATE_COMPLETE"
    detect(cfn, "renamed")
    assert drifts(cfn, "renamed", "IN_SYNC").keys() == made.keys()

    states, iot = cloud.client("stepfunctions"), cloud.client("iot")
    other = json.dumps({**wait, "Comment": "other"})
    for name in ("Machine", "Unseen"):
        states.update_state_machine(
            stateMachineArn=physical(cfn, name, "renamed"), definition=other
        )
    action = {"sqs": {"queueUrl": "other", "roleArn": role}}
    iot.replace_topic_rule(
        ruleName="renamed", topicRulePayload={"sql": rule["Sql"], "actions": [action]}
    )
    iot.update_thing(
        thingName=physical(cfn, "Thing", "renamed"), attributePayload={"attributes": {"a": "2"}}
    )
    detect(cfn, "renamed")
    changed = {
        name: [(d["PropertyPath"], d["ActualValue"]) for d in drift["PropertyDifferences"]]
        for name, drift in drifts(cfn, "renamed", "MODIFIED").items()
    }
    assert changed == {
        "Machine": [("/DefinitionString", other)],
        "Rule": [("/TopicRulePayload/Actions/0/Sqs/QueueUrl", "other")],
        "Thing": [("/AttributePayload/Attributes/a", "2")],
    }


def test_what_lies_deeper_in_an_answer_is_compared(cloud: InProcessCloud, cfn: Any) -> None:
    """In an object's only list of objects, in the object of its setting, or as one name in each of a list's objects."""
    cidr = "10.0.0.0/16"
    password = {"MasterUsername": "admin", "MasterUserPassword": "secret-99"}
    properties: dict[str, tuple[str, dict[str, Any]]] = {
        "Vpc": ("EC2::VPC", {"CidrBlock": cidr}),
        "Subnet": ("EC2::Subnet", {"VpcId": {"Ref": "Vpc"}, "CidrBlock": cidr}),
        "Group": ("EC2::SecurityGroup", {"GroupDescription": "g", "VpcId": {"Ref": "Vpc"}}),
        "Other": ("EC2::SecurityGroup", {"GroupDescription": "o", "VpcId": {"Ref": "Vpc"}}),
        "Instance": (
            "EC2::Instance",
            {
                "ImageId": "ami-12c6146b", "InstanceType": "t3.micro", "SubnetId": {"Ref": "Subnet"},
                "PrivateIpAddress": "10.0.0.7", "EbsOptimized": True, "Monitoring": True,
                "SecurityGroupIds": [{"Ref": "Group"}], "KeyName": "none",
            },
        ),
        "Database": (
            "RDS::DBInstance",
            {
                "Engine": "postgres", "DBInstanceClass": "db.t3.micro", "AllocatedStorage": "20", "Port": "5433",
                "VPCSecurityGroups": [{"Ref": "Group"}], **password,
            },
        ),
        "Warehouse": (
            "Redshift::Cluster",
            {
                # No port: it is one of this machine's, and may be another's.
                "ClusterType": "single-node", "NodeType": "ra3.large", "DBName": "dev",
                "VpcSecurityGroupIds": [{"Ref": "Group"}], **password,
            },
        ),
    }  # fmt: skip
    made = {
        name: {"Type": f"AWS::{kind}", "Properties": given}
        for name, (kind, given) in properties.items()
    }
    assert create(cfn, {"Resources": made}, "deep") == "CREATE_COMPLETE", why(cfn, "deep")
    detect(cfn, "deep")
    assert drifts(cfn, "deep", "MODIFIED") == {}

    other = physical(cfn, "Other", "deep")
    ec2: Any = cloud.client("ec2")
    instance = physical(cfn, "Instance", "deep")
    ec2.stop_instances(InstanceIds=[instance])
    ec2.modify_instance_attribute(InstanceId=instance, InstanceType={"Value": "t3.large"})
    cloud.client("rds").modify_db_instance(
        DBInstanceIdentifier=physical(cfn, "Database", "deep"),
        VpcSecurityGroupIds=[other], ApplyImmediately=True,
    )  # fmt: skip
    cloud.client("redshift").modify_cluster(
        ClusterIdentifier=physical(cfn, "Warehouse", "deep"), VpcSecurityGroupIds=[other]
    )
    detect(cfn, "deep")
    changed = {
        name: {d["PropertyPath"]: d["ActualValue"] for d in drift["PropertyDifferences"]}
        for name, drift in drifts(cfn, "deep", "MODIFIED").items()
    }
    assert changed == {
        "Instance": {"/InstanceType": "t3.large"},
        "Database": {"/VPCSecurityGroups/0": other},
        "Warehouse": {"/VpcSecurityGroupIds/0": other},
    }
