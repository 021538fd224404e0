"""Log groups' classes and deletion protection, and what answers always show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud

POLICY = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "es.amazonaws.com"},'
    ' "Action": "logs:PutLogEvents", "Resource": "*"}]}'
)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with InProcessCloud(tmp_path_factory.mktemp("c") / "data") as cloud:
        yield cloud.client("logs")


def shown(logs: Any, name: str) -> tuple[str, bool]:
    [group] = logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    return group["logGroupClass"], group["deletionProtectionEnabled"]


def test_a_group_shows_its_class_and_protection(logs: Any):
    logs.create_log_group(logGroupName="plain")
    assert shown(logs, "plain") == ("STANDARD", False)
    logs.create_log_group(logGroupName="rare", logGroupClass="INFREQUENT_ACCESS")
    assert shown(logs, "rare") == ("INFREQUENT_ACCESS", False)
    with pytest.raises(ClientError, match="'WRONG' at 'logGroupClass' failed to satisfy"):
        logs.create_log_group(logGroupName="wrong", logGroupClass="WRONG")


@pytest.mark.parametrize("by_arn", [False, True])
def test_a_protected_group_is_not_deleted(logs: Any, by_arn: bool):
    logs.create_log_group(logGroupName="kept", deletionProtectionEnabled=True)
    with pytest.raises(ClientError, match="deletion protection enabled") as refused:
        logs.delete_log_group(logGroupName="kept")
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    [group] = logs.describe_log_groups(logGroupNamePrefix="kept")["logGroups"]
    logs.put_log_group_deletion_protection(
        logGroupIdentifier=group["arn"] if by_arn else "kept", deletionProtectionEnabled=False
    )
    assert shown(logs, "kept") == ("STANDARD", False)
    logs.delete_log_group(logGroupName="kept")
    with pytest.raises(ClientError, match="The specified log group does not exist"):
        logs.put_log_group_deletion_protection(
            logGroupIdentifier="kept", deletionProtectionEnabled=True
        )


def test_filters_and_policies_show_what_is_always_there(logs: Any):
    logs.create_log_group(logGroupName="filtered")
    metric = {"metricName": "m", "metricNamespace": "n", "metricValue": "1"}
    logs.put_metric_filter(
        logGroupName="filtered", filterName="f", filterPattern="x", metricTransformations=[metric]
    )
    [one] = logs.describe_metric_filters(logGroupName="filtered")["metricFilters"]
    assert one["applyOnTransformedLogs"] is False
    made = logs.put_resource_policy(policyName="p", policyDocument=POLICY)["resourcePolicy"]
    assert made["policyScope"] == "ACCOUNT"
    assert logs.describe_resource_policies()["resourcePolicies"] == [made]
