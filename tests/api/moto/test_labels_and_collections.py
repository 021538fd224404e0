"""AppRegistry, OpenSearch Serverless, AppConfig's environments, anomaly detectors: moto's, with what it lacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud


@pytest.fixture
def cloud(data_dir: Path) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir) as cloud:
        yield cloud


def code_of(refused: pytest.ExceptionInfo[ClientError]) -> str:
    return refused.value.response["Error"]["Code"]


def test_an_application_is_associated_with_a_stack_that_exists_only(cloud: InProcessCloud) -> None:
    registry = cloud.client("servicecatalog-appregistry")
    registry.create_application(name="app", clientToken="t")
    with pytest.raises(ClientError) as refused:
        registry.associate_resource(application="app", resourceType="CFN_STACK", resource="no")
    assert code_of(refused) == "ResourceNotFoundException"

    topic = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    stack = cloud.client("cloudformation").create_stack(
        StackName="s", TemplateBody=json.dumps(topic)
    )
    answer = registry.associate_resource(application="app", resourceType="CFN_STACK", resource="s")
    assert answer["resourceArn"] == stack["StackId"]
    (resource,) = registry.list_associated_resources(application="app")["resources"]
    assert (resource["name"], resource["arn"]) == ("s", stack["StackId"])
    registry.disassociate_resource(application="app", resourceType="CFN_STACK", resource="s")
    assert registry.list_associated_resources(application="app")["resources"] == []


def test_an_attribute_group_is_found_by_its_name_and_its_arn(cloud: InProcessCloud) -> None:
    registry = cloud.client("servicecatalog-appregistry")
    made = registry.create_attribute_group(name="g", attributes='{"a": 1}', clientToken="t")
    registry.create_application(name="app", clientToken="t")
    arn = made["attributeGroup"]["arn"]
    assert registry.get_attribute_group(attributeGroup=arn)["attributes"] == '{"a": 1}'
    registry.associate_attribute_group(application="app", attributeGroup="g")
    associated = registry.list_associated_attribute_groups(application="app")["attributeGroups"]
    assert associated == [made["attributeGroup"]["id"]]
    with pytest.raises(ClientError) as refused:
        registry.create_attribute_group(name="g", attributes="{}", clientToken="u")
    assert code_of(refused) == "ConflictException"
    registry.delete_attribute_group(attributeGroup="g")
    with pytest.raises(ClientError) as refused:
        registry.get_attribute_group(attributeGroup="g")
    assert code_of(refused) == "ResourceNotFoundException"


def test_a_collection_needs_an_encryption_policy_that_matches_its_name(
    cloud: InProcessCloud,
) -> None:
    serverless = cloud.client("opensearchserverless")

    def encrypt(name: str, resource: str) -> None:
        rules = [{"ResourceType": "collection", "Resource": [resource]}]
        serverless.create_security_policy(
            name=name, type="encryption", policy=json.dumps({"Rules": rules, "AWSOwnedKey": True})
        )

    encrypt("other", "collection/other-?")
    with pytest.raises(ClientError) as refused:
        serverless.create_collection(name="other-1")
    assert code_of(refused) == "ValidationException"
    encrypt("logs", "collection/logs-*")
    detail = serverless.create_collection(name="logs-app", type="SEARCH")["createCollectionDetail"]
    assert (detail["kmsKeyArn"], detail["type"]) == ("auto", "SEARCH")
    with pytest.raises(ClientError) as refused:
        serverless.create_collection(name="logs-app")
    assert code_of(refused) == "ConflictException"


def test_an_access_policy_is_changed_from_its_newest_version_only(cloud: InProcessCloud) -> None:
    serverless = cloud.client("opensearchserverless")
    policy = json.dumps([{"Rules": [], "Principal": ["arn:aws:iam::000000000000:role/r"]}])
    made = serverless.create_access_policy(name="data", type="data", policy=policy)
    named = {
        "name": "data",
        "type": "data",
        "policyVersion": made["accessPolicyDetail"]["policyVersion"],
    }
    changed = serverless.update_access_policy(**named, description="d")["accessPolicyDetail"]
    assert changed["policyVersion"] != named["policyVersion"]
    with pytest.raises(ClientError) as refused:
        serverless.update_access_policy(**named, description="e")
    assert code_of(refused) == "ValidationException"
    serverless.delete_access_policy(name="data", type="data")
    with pytest.raises(ClientError) as refused:
        serverless.get_access_policy(name="data", type="data")
    assert code_of(refused) == "ResourceNotFoundException"


def test_environments_belong_to_an_application(cloud: InProcessCloud) -> None:
    config = cloud.client("appconfig")
    application = config.create_application(Name="app")["Id"]
    environment = config.create_environment(ApplicationId=application, Name="prod")
    assert environment["State"] == "READY_FOR_DEPLOYMENT"
    assert len(config.list_environments(ApplicationId=application)["Items"]) == 1
    with pytest.raises(ClientError) as refused:
        config.create_environment(ApplicationId="0000000", Name="prod")
    assert code_of(refused) == "ResourceNotFoundException"
    named = {"ApplicationId": application, "EnvironmentId": environment["Id"]}
    config.delete_environment(**named)
    with pytest.raises(ClientError) as refused:
        config.get_environment(**named)
    assert code_of(refused) == "ResourceNotFoundException"


def test_an_anomaly_detector_is_its_metric(cloud: InProcessCloud) -> None:
    cloudwatch = cloud.client("cloudwatch")
    metric = {"Namespace": "n", "MetricName": "m", "Stat": "Sum"}
    cloudwatch.put_anomaly_detector(SingleMetricAnomalyDetector=metric)
    cloudwatch.put_anomaly_detector(
        SingleMetricAnomalyDetector=metric, Configuration={"MetricTimezone": "UTC"}
    )
    (detector,) = cloudwatch.describe_anomaly_detectors(Namespace="n")["AnomalyDetectors"]
    assert detector["Configuration"]["MetricTimezone"] == "UTC"
    cloudwatch.delete_anomaly_detector(SingleMetricAnomalyDetector=metric)
    with pytest.raises(ClientError) as refused:
        cloudwatch.delete_anomaly_detector(SingleMetricAnomalyDetector=metric)
    assert code_of(refused) == "ResourceNotFoundException"
    with pytest.raises(ClientError) as refused:
        cloudwatch.put_anomaly_detector()
    assert code_of(refused) == "InvalidParameterCombination"
