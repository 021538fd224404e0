"""Changes that AWS makes without another resource: each is made, and taken back with what a template no longer says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.cloudformation.test_stacks import create, physical, template, update
from tests.support.cloud import ACCOUNT, InProcessCloud

IAM = {"Capabilities": ["CAPABILITY_NAMED_IAM"]}


def document(action: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": action, "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [statement]}


def role(**properties: Any) -> dict[str, Any]:
    anybody = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    trust = {"Version": "2012-10-17", "Statement": [anybody]}
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": trust, **properties},
    }


def test_a_managed_policy_of_a_fixed_name_gets_another_document_again_and_again(
    cloud: InProcessCloud, cfn: Any
):
    iam = cloud.client("iam")

    def policy(action: str, *roles: str) -> dict[str, Any]:
        return {
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {
                "ManagedPolicyName": "in-place",
                "PolicyDocument": document(action),
                "Roles": [{"Ref": name} for name in roles],
            },
        }

    body = template(A=role(), B=role(), Policy=policy("s3:GetObject", "A"))
    assert create(cfn, body, **IAM) == "CREATE_COMPLETE"
    arn = physical(cfn, "Policy")
    # IAM keeps five versions of a policy.
    for number in range(6):
        body = template(A=role(), B=role(), Policy=policy(f"s3:Get{number}", "B"))
        assert update(cfn, body, **IAM) == "UPDATE_COMPLETE"
    assert physical(cfn, "Policy") == arn
    found = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
    shown = iam.get_policy_version(PolicyArn=arn, VersionId=found)["PolicyVersion"]["Document"]
    assert shown == document("s3:Get5")
    holders = iam.list_entities_for_policy(PolicyArn=arn)["PolicyRoles"]
    assert [holder["RoleName"] for holder in holders] == [physical(cfn, "B")]


def test_a_role_and_its_profile_change_and_lose_what_a_template_no_longer_says(
    cloud: InProcessCloud, cfn: Any
):
    iam = cloud.client("iam")

    def profile(name: str) -> dict[str, Any]:
        return {
            "Type": "AWS::IAM::InstanceProfile",
            "Properties": {"InstanceProfileName": "p", "Roles": [{"Ref": name}]},
        }

    before = role(Description="d", MaxSessionDuration=7200)
    create(cfn, template(A=before, B=role(), Profile=profile("A")), **IAM)
    found = iam.get_role(RoleName=physical(cfn, "A"))["Role"]
    assert (found["Description"], found["MaxSessionDuration"]) == ("d", 7200)
    body = template(A=role(), B=role(), Profile=profile("B"))
    assert update(cfn, body, **IAM) == "UPDATE_COMPLETE"
    found = iam.get_role(RoleName=physical(cfn, "A"))["Role"]
    assert (found.get("Description", ""), found["MaxSessionDuration"]) == ("", 3600)
    (held,) = iam.get_instance_profile(InstanceProfileName="p")["InstanceProfile"]["Roles"]
    assert held["RoleName"] == physical(cfn, "B")


def test_a_queue_a_topic_s_subscription_and_an_alias_are_taken_back_to_their_defaults(
    cloud: InProcessCloud, cfn: Any
):
    def body(**of: dict[str, Any]) -> dict[str, Any]:
        arn = {"Fn::GetAtt": ["Queue", "Arn"]}
        where = {"TopicArn": {"Ref": "Topic"}, "Protocol": "sqs", "Endpoint": arn}
        return template(
            Queue={"Type": "AWS::SQS::Queue", "Properties": of.get("queue", {})},
            Topic={"Type": "AWS::SNS::Topic"},
            Subscription={
                "Type": "AWS::SNS::Subscription",
                "Properties": {**where, **of.get("subscription", {})},
            },
        )

    filtered = {"FilterPolicy": {"kind": ["a"]}, "RawMessageDelivery": True}
    create(cfn, body(queue={"DelaySeconds": 7}, subscription=filtered))
    sns, sqs = cloud.client("sns"), cloud.client("sqs")
    arn, url = physical(cfn, "Subscription"), physical(cfn, "Queue")
    found = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
    assert (json.loads(found["FilterPolicy"]), found["RawMessageDelivery"]) == (
        {"kind": ["a"]},
        "true",
    )
    assert update(cfn, body()) == "UPDATE_COMPLETE"
    assert physical(cfn, "Subscription") == arn
    found = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
    assert json.loads(found.get("FilterPolicy", "{}")) == {}
    assert found["RawMessageDelivery"] == "false"
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["DelaySeconds"] == "0"


def test_a_queue_s_policy_outlasts_another_logical_id_and_another_stack_s_deletion(
    cloud: InProcessCloud, cfn: Any
):
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName="shared")["QueueUrl"]
    policy = {
        "Type": "AWS::SQS::QueuePolicy",
        "Properties": {
            "Queues": [url],
            "PolicyDocument": {
                "Version": "2012-10-17",
                "Statement": [
                    {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}
                ],
            },
        },
    }

    def has_policy() -> bool:
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])
        return "Policy" in found.get("Attributes", {})

    assert create(cfn, template(Policy=policy)) == "CREATE_COMPLETE"
    assert update(cfn, template(Renamed=policy)) == "UPDATE_COMPLETE"
    assert has_policy()
    assert create(cfn, template(Policy=policy), name="other") == "CREATE_COMPLETE"
    cfn.delete_stack(StackName="other")
    assert has_policy()
    cfn.delete_stack(StackName="s")
    assert not has_policy()


def test_a_failed_update_leaves_a_log_stream_of_the_same_name_in_its_group(
    cloud: InProcessCloud, cfn: Any
):
    def body(group: str, **more: Any) -> dict[str, Any]:
        named = {"LogGroupName": {"Ref": group}, "LogStreamName": "lines"}
        groups = {name: {"Type": "AWS::Logs::LogGroup"} for name in ("A", "B")}
        return template(
            **groups, Lines={"Type": "AWS::Logs::LogStream", "Properties": named}, **more
        )

    create(cfn, body("A"))
    fails = {
        "Type": "AWS::Lambda::Permission",
        "DependsOn": "Lines",
        "Properties": {
            "FunctionName": "nobody", "Action": "lambda:InvokeFunction", "Principal": "s3.amazonaws.com",
        },
    }  # fmt: skip
    assert update(cfn, body("B", Fails=fails)) == "UPDATE_ROLLBACK_COMPLETE"
    logs = cloud.client("logs")
    for name, streams in (("A", ["lines"]), ("B", [])):
        found = logs.describe_log_streams(logGroupName=physical(cfn, name))["logStreams"]
        assert [each["logStreamName"] for each in found] == streams


def test_a_flink_application_changes_in_place_and_keeps_its_log_stream(
    cloud: InProcessCloud, cfn: Any
):
    client = cloud.client("kinesisanalyticsv2")
    logs = {
        "Type": "AWS::KinesisAnalyticsV2::ApplicationCloudWatchLoggingOption",
        "Properties": {
            "ApplicationName": {"Ref": "Flink"},
            "CloudWatchLoggingOption": {
                "LogStreamARN": "arn:aws:logs:us-east-1:000000000000:log-group:g:log-stream:s"
            },
        },
    }

    def flink(**given: Any) -> dict[str, Any]:
        properties = {
            "ApplicationName": "in-place",
            "RuntimeEnvironment": "FLINK-1_18",
            "ServiceExecutionRole": "arn:aws:iam::000000000000:role/r",
            **given,
        }
        kind = "AWS::KinesisAnalyticsV2::Application"
        return template(Flink={"Type": kind, "Properties": properties}, Logs=logs)

    def found() -> dict[str, Any]:
        return client.describe_application(ApplicationName="in-place")["ApplicationDetail"]

    assert create(cfn, flink()) == "CREATE_COMPLETE"
    made = found()
    configuration = {
        "ApplicationSnapshotConfiguration": {"SnapshotsEnabled": "true"},
        "EnvironmentProperties": {
            "PropertyGroups": [{"PropertyGroupId": "g", "PropertyMap": {"k": "v"}}]
        },
        "VpcConfigurations": [{"SubnetIds": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}],
    }
    changed = flink(
        ApplicationConfiguration=configuration,
        RuntimeEnvironment="FLINK-1_20",
        Tags=[{"Key": "a", "Value": "b"}],
    )
    assert update(cfn, changed) == "UPDATE_COMPLETE"
    now = found()
    described = now["ApplicationConfigurationDescription"]
    assert described["ApplicationSnapshotConfigurationDescription"] == {"SnapshotsEnabled": True}
    assert described["VpcConfigurationDescriptions"][0]["SubnetIds"] == ["subnet-1"]
    assert now["RuntimeEnvironment"] == "FLINK-1_20"
    kept = ("CreateTimestamp", "CloudWatchLoggingOptionDescriptions")
    assert [now[name] for name in kept] == [made[name] for name in kept]
    tags = client.list_tags_for_resource(ResourceARN=now["ApplicationARN"])["Tags"]
    assert {"Key": "a", "Value": "b"} in tags

    refused = flink(ApplicationConfiguration=configuration, ApplicationDescription="other")
    assert update(cfn, refused) == "UPDATE_ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    reasons = [event.get("ResourceStatusReason", "") for event in events]
    assert any("no call that changes the ApplicationDescription" in each for each in reasons)
    assert found()["RuntimeEnvironment"] == "FLINK-1_20"

    assert update(cfn, flink()) == "UPDATE_COMPLETE"
    now = found()
    described = now["ApplicationConfigurationDescription"]
    assert "VpcConfigurationDescriptions" not in described
    assert described["EnvironmentPropertyDescriptions"] == {"PropertyGroupDescriptions": []}
    assert [now[name] for name in kept] == [made[name] for name in kept]
    tags = client.list_tags_for_resource(ResourceARN=now["ApplicationARN"])["Tags"]
    assert {"Key": "a", "Value": "b"} not in tags


def test_a_pipe_changes_in_place_and_goes_on_reading_where_it_was(cloud: InProcessCloud, cfn: Any):
    pipes = cloud.client("pipes")
    stream = {"Type": "AWS::Kinesis::Stream", "Properties": {"ShardCount": 1}}

    def pipe(size: int, start: str = "LATEST", **given: Any) -> dict[str, Any]:
        properties = {
            "Name": "in-place",
            "RoleArn": "arn:aws:iam::000000000000:role/r",
            "Source": {"Fn::GetAtt": ["Source", "Arn"]},
            "Target": "arn:aws:sqs:us-east-1:000000000000:q",
            "DesiredState": "STOPPED",
            "SourceParameters": {
                "KinesisStreamParameters": {"StartingPosition": start, "BatchSize": size}
            },
            **given,
        }
        return template(Source=stream, Pipe={"Type": "AWS::Pipes::Pipe", "Properties": properties})

    first = pipe(10, TargetParameters={"InputTemplate": "x"})
    assert create(cfn, first) == "CREATE_COMPLETE"
    made = pipes.describe_pipe(Name="in-place")
    assert update(cfn, pipe(20, Description="d")) == "UPDATE_COMPLETE"
    now = pipes.describe_pipe(Name="in-place")
    assert now["CreationTime"] == made["CreationTime"]
    parameters = {"StartingPosition": "LATEST", "BatchSize": 20}
    assert now["SourceParameters"] == {"KinesisStreamParameters": parameters}
    assert now["Description"] == "d"
    assert not now.get("TargetParameters")
    assert update(cfn, pipe(20, "TRIM_HORIZON")) == "UPDATE_ROLLBACK_COMPLETE"
    now = pipes.describe_pipe(Name="in-place")
    assert now["SourceParameters"] == {"KinesisStreamParameters": parameters}


@pytest.mark.slow  # four services of moto's are imported
def test_tags_of_what_holds_others_change_in_place(cloud: InProcessCloud, cfn: Any):
    def holders(**given: Any) -> dict[str, Any]:
        cluster = {"Type": "AWS::ECS::Cluster", "Properties": {"ClusterName": "held", **given}}
        domain = {
            "Type": "AWS::OpenSearchService::Domain",
            "Properties": {"DomainName": "held", "EngineVersion": "OpenSearch_2.11", **given},
        }
        database = {
            "Type": "AWS::RDS::DBCluster",
            "DeletionPolicy": "Delete",
            "Properties": {
                "DBClusterIdentifier": "held",
                "Engine": "aurora-postgresql",
                "MasterUsername": "u",
                "MasterUserPassword": "password1",
                **given,
            },
        }
        return template(Cluster=cluster, Domain=domain, Database=database)

    ecs, search, rds = (cloud.client(each) for each in ("ecs", "opensearch", "rds"))
    assert create(cfn, holders()) == "CREATE_COMPLETE"
    ecs.register_task_definition(
        family="f", containerDefinitions=[{"name": "c", "image": "i", "memory": 128}]
    )
    ecs.create_service(cluster="held", serviceName="s", taskDefinition="f", desiredCount=1)
    domain = search.describe_domain(DomainName="held")["DomainStatus"]
    (database,) = rds.describe_db_clusters(DBClusterIdentifier="held")["DBClusters"]
    assert update(cfn, holders(Tags=[{"Key": "a", "Value": "b"}])) == "UPDATE_COMPLETE"
    (cluster,) = ecs.describe_clusters(clusters=["held"], include=["TAGS"])["clusters"]
    assert {"key": "a", "value": "b"} in cluster["tags"]
    assert ecs.list_services(cluster="held")["serviceArns"]
    found = search.list_tags(ARN=domain["ARN"])["TagList"]
    assert {"Key": "a", "Value": "b"} in found
    tags = rds.list_tags_for_resource(ResourceName=database["DBClusterArn"])["TagList"]
    assert {"Key": "a", "Value": "b"} in tags
    (now,) = rds.describe_db_clusters(DBClusterIdentifier="held")["DBClusters"]
    assert now["DbClusterResourceId"] == database["DbClusterResourceId"]


def test_a_scaling_group_keeps_its_policies_when_its_tags_change(cloud: InProcessCloud, cfn: Any):
    def group(*tags: str) -> dict[str, Any]:
        launch = {
            "Type": "AWS::AutoScaling::LaunchConfiguration",
            "Properties": {"ImageId": "ami-12345678", "InstanceType": "t3.micro"},
        }
        properties = {
            "AutoScalingGroupName": "held",
            "LaunchConfigurationName": {"Ref": "Launch"},
            "MinSize": "0",
            "MaxSize": "0",
            "AvailabilityZones": ["us-east-1a"],
            "Tags": [{"Key": key, "Value": "v", "PropagateAtLaunch": "true"} for key in tags],
        }
        kind = "AWS::AutoScaling::AutoScalingGroup"
        return template(Launch=launch, Group={"Type": kind, "Properties": properties})

    client = cloud.client("autoscaling")
    assert create(cfn, group("a", "b")) == "CREATE_COMPLETE"
    client.put_scaling_policy(
        AutoScalingGroupName="held",
        PolicyName="p",
        AdjustmentType="ChangeInCapacity",
        ScalingAdjustment=1,
    )
    assert update(cfn, group("b", "c")) == "UPDATE_COMPLETE"
    (found,) = client.describe_auto_scaling_groups()["AutoScalingGroups"]
    assert {"b", "c"} == {each["Key"] for each in found["Tags"]} - {
        each["Key"] for each in found["Tags"] if each["Key"].startswith("aws:")
    }
    assert client.describe_policies(AutoScalingGroupName="held")["ScalingPolicies"]


def test_a_vpc_gets_other_dhcp_options_and_the_first_ones_can_be_deleted(
    cloud: InProcessCloud, cfn: Any
):
    def network(options: str) -> dict[str, Any]:
        association = {"VpcId": {"Ref": "Vpc"}, "DhcpOptionsId": {"Ref": options}}
        return template(
            Vpc={"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
            A={"Type": "AWS::EC2::DHCPOptions", "Properties": {"DomainName": "a"}},
            B={"Type": "AWS::EC2::DHCPOptions", "Properties": {"DomainName": "b"}},
            Of={"Type": "AWS::EC2::VPCDHCPOptionsAssociation", "Properties": association},
        )

    ec2 = cloud.client("ec2")
    assert create(cfn, network("A")) == "CREATE_COMPLETE"
    assert update(cfn, network("B")) == "UPDATE_COMPLETE"
    ids = {name: physical(cfn, name) for name in ("Vpc", "A", "B")}
    (vpc,) = ec2.describe_vpcs(VpcIds=[ids["Vpc"]])["Vpcs"]
    assert vpc["DhcpOptionsId"] == ids["B"]
    with pytest.raises(ec2.exceptions.ClientError, match="DependencyViolation"):
        ec2.delete_dhcp_options(DhcpOptionsId=ids["B"])
    ec2.delete_dhcp_options(DhcpOptionsId=ids["A"])


def test_resources_with_a_name_inside_a_property_need_none(cloud: InProcessCloud, cfn: Any):
    def unnamed(amount: int, text: str) -> dict[str, Any]:
        limit = {"Amount": amount, "Unit": "USD"}
        budget = {"BudgetType": "COST", "TimeUnit": "MONTHLY", "BudgetLimit": limit}
        parts = {"Budget": budget, "Template": {"SubjectPart": text}}
        parts["JsonClassifier"] = {"JsonPath": text}
        types = ("AWS::Budgets::Budget", "AWS::SES::Template", "AWS::Glue::Classifier")
        return template(
            **{
                name: {"Type": kind, "Properties": {name: part}}
                for kind, (name, part) in zip(types, parts.items(), strict=True)
            }
        )

    assert create(cfn, unnamed(10, "$.a")) == "CREATE_COMPLETE"
    ids = {name: physical(cfn, name) for name in ("Budget", "Template", "JsonClassifier")}
    assert update(cfn, unnamed(20, "$.b")) == "UPDATE_COMPLETE"
    assert {name: physical(cfn, name) for name in ids} == ids
    (budget,) = cloud.client("budgets").describe_budgets(AccountId=ACCOUNT)["Budgets"]
    assert (budget["BudgetName"], budget["BudgetLimit"]["Amount"]) == (ids["Budget"], "20")
    classifier = cloud.client("glue").get_classifier(Name=ids["JsonClassifier"])["Classifier"]
    assert classifier["JsonClassifier"]["JsonPath"] == "$.b"


def test_an_address_moves_to_another_interface(cloud: InProcessCloud, cfn: Any):
    def network(interface: str) -> dict[str, Any]:
        inside = {"SubnetId": {"Ref": "Subnet"}}
        association = {
            "AllocationId": {"Fn::GetAtt": ["Address", "AllocationId"]},
            "NetworkInterfaceId": {"Ref": interface},
        }
        subnet = {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.1.0/24"}
        return template(
            Vpc={"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
            Subnet={"Type": "AWS::EC2::Subnet", "Properties": subnet},
            A={"Type": "AWS::EC2::NetworkInterface", "Properties": inside},
            B={"Type": "AWS::EC2::NetworkInterface", "Properties": inside},
            Address={"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}},
            Of={"Type": "AWS::EC2::EIPAssociation", "Properties": association},
        )

    assert create(cfn, network("A")) == "CREATE_COMPLETE"
    assert update(cfn, network("B")) == "UPDATE_COMPLETE"
    addresses = cloud.client("ec2").describe_addresses(PublicIps=[physical(cfn, "Address")])
    assert addresses["Addresses"][0]["NetworkInterfaceId"] == physical(cfn, "B")


def test_an_instance_of_cloud_map_changes_and_stays_one(cloud: InProcessCloud, cfn: Any):
    def registered(address: str) -> dict[str, Any]:
        space = {"Type": "AWS::ServiceDiscovery::HttpNamespace", "Properties": {"Name": "ns"}}
        service = {"Name": "one", "NamespaceId": {"Ref": "Space"}}
        instance = {
            "ServiceId": {"Ref": "Service"},
            "InstanceAttributes": {"AWS_INSTANCE_IPV4": address},
        }
        return template(
            Space=space,
            Service={"Type": "AWS::ServiceDiscovery::Service", "Properties": service},
            Instance={"Type": "AWS::ServiceDiscovery::Instance", "Properties": instance},
        )

    assert create(cfn, registered("10.0.0.1")) == "CREATE_COMPLETE"
    assert update(cfn, registered("10.0.0.2")) == "UPDATE_COMPLETE"
    instances = cloud.client("servicediscovery").list_instances(ServiceId=physical(cfn, "Service"))[
        "Instances"
    ]
    assert [one["Attributes"]["AWS_INSTANCE_IPV4"] for one in instances] == ["10.0.0.2"]
