"""Answers of moto's services as AWS was recorded: LocalStack's snapshots of logs, secretsmanager and cloudwatch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab

KINESIS = "arn:aws:kinesis:us-east-1:000000000000:stream/s"
FIREHOSE = "arn:aws:firehose:us-east-1:000000000000:deliverystream/d"
ROLE = "arn:aws:iam::000000000000:role/r"
FUNCTION = "arn:aws:lambda:us-east-1:000000000000:function:f"
INVALID_NAME = (
    "Invalid name. Must be a valid name containing alphanumeric characters, or any of the following:"
    " -/_+=.@!"
)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[MotoLab]:
    with MotoLab(tmp_path / "moto") as lab:
        yield lab


def refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error: Any = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_subscription_filters(lab: MotoLab) -> None:
    logs = lab.client("logs")
    logs.create_log_group(logGroupName="g")
    one = {"logGroupName": "g", "filterName": "a", "filterPattern": ""}
    for arn, vendor in ((KINESIS, "kinesis"), (FIREHOSE, "firehose")):
        assert refusal(logs.put_subscription_filter, **one, destinationArn=arn) == (
            "InvalidParameterException",
            f"destinationArn for vendor {vendor} cannot be used without roleArn",
        )
    assert refusal(logs.put_subscription_filter, **one, destinationArn=FUNCTION, roleArn=ROLE) == (
        "InvalidParameterException",
        "destinationArn for vendor lambda cannot be used with roleArn",
    )
    for name in "ab":
        logs.put_subscription_filter(**{**one, "filterName": name}, destinationArn=FUNCTION)
    logs.put_subscription_filter(**{**one, "filterPattern": "[]"}, destinationArn=FUNCTION)
    shown = logs.describe_subscription_filters(logGroupName="g")["subscriptionFilters"][0]
    del shown["creationTime"]
    assert shown == {
        **one, "filterPattern": "[]", "destinationArn": FUNCTION, "distribution": "ByLogStream",
        "applyOnTransformedLogs": False,
    }  # fmt: skip
    chosen = {"destinationArn": FUNCTION, "applyOnTransformedLogs": True}
    logs.put_subscription_filter(**one, **chosen)
    (shown, _) = logs.describe_subscription_filters(logGroupName="g")["subscriptionFilters"]
    assert shown["applyOnTransformedLogs"] is True
    metric = [{"metricName": "m", "metricNamespace": "n", "metricValue": "1"}]
    logs.put_metric_filter(**one, metricTransformations=metric, applyOnTransformedLogs=True)
    (shown,) = logs.describe_metric_filters(logGroupName="g")["metricFilters"]
    assert shown["applyOnTransformedLogs"] is True
    third = {**one, "filterName": "c", "destinationArn": FUNCTION}
    assert refusal(logs.put_subscription_filter, **third) == (
        "LimitExceededException",
        "Resource limit exceeded.",
    )
    for group, what in (("no", "log group"), ("g", "subscription filter")):
        call = {"logGroupName": group, "filterName": "no"}
        assert refusal(logs.delete_subscription_filter, **call) == (
            "ResourceNotFoundException",
            f"The specified {what} does not exist.",
        )


def test_the_versions_of_a_secret(lab: MotoLab) -> None:
    secrets = lab.client("secretsmanager")
    made = secrets.create_secret(Name="s", SecretString="1")
    for value in "23":
        secrets.put_secret_value(SecretId="s", SecretString=value)
    answer = secrets.list_secret_version_ids(SecretId="s")
    assert (answer["ARN"], answer["Name"], "NextToken" in answer) == (made["ARN"], "s", False)
    assert [
        (one["VersionStages"], one["KmsKeyIds"], "LastAccessedDate" in one)
        for one in answer["Versions"]
    ] == [
        (["AWSPREVIOUS"], ["DefaultEncryptionKey"], False),
        (["AWSCURRENT"], ["DefaultEncryptionKey"], False),
    ]
    every = secrets.list_secret_version_ids(SecretId="s", IncludeDeprecated=True)["Versions"]
    assert "VersionStages" not in next(
        one for one in every if one["VersionId"] == made["VersionId"]
    )
    keys = lab.client("kms")
    key = keys.create_key()["KeyMetadata"]["KeyId"]
    keys.create_alias(AliasName="alias/own", TargetKeyId=key)
    own = secrets.create_secret(Name="own", SecretString="1", KmsKeyId="alias/own")["ARN"]
    (version,) = secrets.list_secret_version_ids(SecretId=own)["Versions"]
    assert version["KmsKeyIds"] == ["alias/own"]
    assert refusal(secrets.list_secret_version_ids, SecretId="no")[0] == "ResourceNotFoundException"


@pytest.mark.parametrize("name", ["Inv *?!]Name\\-", "a b", "a%s", ""])
def test_a_name_that_no_secret_has(lab: MotoLab, name: str) -> None:
    secrets = lab.client("secretsmanager")
    invalid = ("ValidationException", INVALID_NAME)
    assert refusal(secrets.create_secret, Name=name, SecretString="1") == invalid
    for operation in ("get_secret_value", "describe_secret", "list_secret_version_ids"):
        assert refusal(getattr(secrets, operation), SecretId=name) == invalid


def test_an_alarm_shows_when_its_state_became_another(lab: MotoLab) -> None:
    cloudwatch = lab.client("cloudwatch")
    alarm: dict[str, Any] = {
        "AlarmName": "a", "MetricName": "m", "Namespace": "n", "Statistic": "Sum", "Period": 60,
        "EvaluationPeriods": 1, "Threshold": 1, "ComparisonOperator": "GreaterThanThreshold",
    }  # fmt: skip

    def times() -> tuple[datetime, datetime]:
        (shown,) = cloudwatch.describe_alarms(AlarmNames=["a"])["MetricAlarms"]
        return shown["StateTransitionedTimestamp"], shown["StateUpdatedTimestamp"]

    cloudwatch.put_metric_alarm(**alarm)
    first, updated = times()
    assert first == updated
    lab.clock.advance(1)
    cloudwatch.set_alarm_state(AlarmName="a", StateValue="INSUFFICIENT_DATA", StateReason="again")
    transitioned, updated = times()
    assert transitioned == first < updated
    lab.clock.advance(1)
    cloudwatch.set_alarm_state(AlarmName="a", StateValue="ALARM", StateReason="r")
    in_alarm, updated = times()
    assert first < in_alarm == updated
    lab.clock.advance(1)
    cloudwatch.set_alarm_state(AlarmName="a", StateValue="ALARM", StateReason="again")
    cloudwatch.put_metric_alarm(**alarm)
    assert times()[0] == in_alarm
    code, message = refusal(
        cloudwatch.set_alarm_state, AlarmName="a", StateValue="NO", StateReason="r"
    )
    assert (code, message) == (
        "ValidationError",
        (
            "1 validation error detected: Value 'NO' at 'stateValue' failed to satisfy constraint: Member must satisfy"
            " enum value set: [INSUFFICIENT_DATA, ALARM, OK]"
        ),
    )


@pytest.mark.parametrize(
    "expression", ["rate(1 hour)", "cron(0 1 * * ? *)", "at(2030-01-01T00:00:00)"]
)
def test_a_schedule_of_an_unknown_time_zone(lab: MotoLab, expression: str) -> None:
    target = {
        "Arn": "arn:aws:sqs:us-east-1:000000000000:q",
        "RoleArn": "arn:aws:iam::000000000000:role/r",
    }
    assert refusal(
        lab.client("scheduler").create_schedule,
        Name="s",
        ScheduleExpression=expression,
        ScheduleExpressionTimezone="Mars/Base",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target=target,
    ) == ("ValidationException", f"Invalid Schedule Expression {expression}.")


def test_a_replay_that_is_over_is_not_cancelled(lab: MotoLab) -> None:
    events = lab.client("events")
    bus = "arn:aws:events:us-east-1:000000000000:event-bus/default"
    archive = events.create_archive(ArchiveName="a", EventSourceArn=bus)["ArchiveArn"]
    end = datetime(2026, 1, 1, tzinfo=UTC)
    events.start_replay(
        ReplayName="r",
        EventSourceArn=archive,
        EventStartTime=end - timedelta(days=1),
        EventEndTime=end,
        Destination={"Arn": bus},
    )
    assert refusal(events.cancel_replay, ReplayName="r") == (
        "IllegalStatusException",
        "Replay r is not in a valid state for this operation.",
    )
    assert events.describe_replay(ReplayName="r")["State"] == "COMPLETED"
    assert refusal(events.cancel_replay, ReplayName="no")[0] == "ResourceNotFoundException"
