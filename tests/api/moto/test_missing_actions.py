"""What moto lacks is refused by AWS's name of the action, whatever moto says about its functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("data")) as cloud:
        yield cloud


@pytest.mark.parametrize(
    ("service", "call", "params", "name"),
    [
        # No function at all, of each protocol.
        ("cloudwatch", "get_metric_widget_image", {"MetricWidget": "{}"}, "cloudwatch:GetMetricWidgetImage"),
        ("glue", "list_blueprints", {}, "glue:ListBlueprints"),
        ("sns", "list_origination_numbers", {}, "sns:ListOriginationNumbers"),
        ("iam", "list_service_specific_credentials", {}, "iam:ListServiceSpecificCredentials"),
        # A function that only says so.
        ("ec2", "describe_bundle_tasks", {}, "ec2:DescribeBundleTasks"),
        ("ec2", "monitor_instances", {"InstanceIds": ["i-1"]}, "ec2:MonitorInstances"),
    ],
)  # fmt: skip
def test_a_missing_action_has_the_name_that_aws_gives_it(
    cloud: InProcessCloud, service: str, call: str, params: dict[str, Any], name: str
) -> None:
    with pytest.raises(ClientError) as refused:
        getattr(cloud.client(service), call)(**params)
    error = refused.value.response["Error"]
    assert (error["Code"], error["Message"]) == (
        "UnknownOperationException",
        f"moto does not implement {name}",
    )


def test_both_of_ses_s_apis_answer(cloud: InProcessCloud) -> None:
    cloud.client("ses").verify_email_identity(EmailAddress="one@example.com")
    newer = cloud.client("sesv2")
    newer.create_email_identity(EmailIdentity="two@example.com")
    rows = newer.list_email_identities()["EmailIdentities"]
    assert [row["IdentityName"] for row in rows] == ["one@example.com", "two@example.com"]


@pytest.mark.parametrize(
    ("service", "call", "params", "name"),
    [
        ("emr-containers", "list_job_templates", {}, "ListJobTemplates"),
        (
            "emr-containers",
            "create_security_configuration",
            {"name": "x", "securityConfigurationData": {}, "clientToken": "t"},
            "CreateSecurityConfiguration",
        ),
        ("iot", "list_audit_suppressions", {}, "ListAuditSuppressions"),
        ("batch", "get_job_queue_snapshot", {"jobQueue": "q"}, "GetJobQueueSnapshot"),
        # Their signatures have another name than the model.
        ("amp", "put_alert_manager_definition", {"workspaceId": "w", "data": b"d"}, "PutAlertManagerDefinition"),
        ("amp", "list_anomaly_detectors", {"workspaceId": "w"}, "ListAnomalyDetectors"),
        ("efs", "describe_account_preferences", {}, "DescribeAccountPreferences"),
        ("bedrock-agent-runtime", "list_sessions", {}, "ListSessions"),
        ("bedrock-runtime", "invoke_model", {"modelId": "a.b-v2", "body": b"{}"}, "InvokeModel"),
        ("bedrock-agent-runtime", "retrieve", {"knowledgeBaseId": "A", "retrievalQuery": {"text": "x"}}, "Retrieve"),
        # REST APIs that sign as services whose own protocol is JSON with a target.
        ("personalize-events", "put_events", {"trackingId": "t", "sessionId": "s", "eventList": []}, "PutEvents"),
        ("personalize-runtime", "get_recommendations", {"campaignArn": "arn:c"}, "GetRecommendations"),
        ("kinesis-video-signaling", "get_ice_server_config", {"ChannelARN": "c"}, "GetIceServerConfig"),
    ],
)  # fmt: skip
def test_a_path_that_moto_lacks_is_refused_by_aws_s_name_of_the_operation(
    cloud: InProcessCloud, service: str, call: str, params: dict[str, Any], name: str
) -> None:
    with pytest.raises(ClientError) as refused:
        getattr(cloud.client(service), call)(**params)
    error = refused.value.response["Error"]
    assert error["Code"] == "UnknownOperationException"
    assert error["Message"].endswith(f":{name}")


@pytest.mark.parametrize(
    ("call", "params"),
    [
        ("create_ip_set", {"IPAddressVersion": "IPV4", "Addresses": []}),
        ("create_regex_pattern_set", {"RegularExpressionList": []}),
    ],
)
def test_a_name_of_wafs_with_other_characters_is_refused(
    cloud: InProcessCloud, call: str, params: dict[str, Any]
) -> None:
    waf = cloud.client("wafv2")
    with pytest.raises(ClientError) as refused:
        getattr(waf, call)(Name="a name!", Scope="REGIONAL", **params)
    error = refused.value.response["Error"]
    assert error["Code"] == "ValidationException"
    assert "at 'name' failed to satisfy constraint" in error["Message"]
    assert getattr(waf, call)(Name="a-name_1", Scope="REGIONAL", **params)["Summary"]


def test_what_to_do_instead_is_said(cloud: InProcessCloud) -> None:
    api = cloud.client("apigateway")
    for call, words in (
        (lambda: api.flush_stage_cache(restApiId="a", stageName="s"), "none is stale"),
        (lambda: api.get_sdk(restApiId="a", stageName="s", sdkType="java"), "GetExport"),
        (lambda: api.get_sdk_types(), "GetExport"),
    ):
        with pytest.raises(ClientError, match=words) as refused:
            call()
        assert refused.value.response["Error"]["Code"] == "UnknownOperationException"
