"""EventBridge and Logs refuse in AWS's words: recorded answers of LocalStack's tests/aws/services/events and logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud

BUS = "arn:aws:events:us-east-1:000000000000:event-bus/"
QUEUE = "arn:aws:sqs:us-east-1:000000000000:q"
PATTERN = json.dumps({"source": ["x"]})
NAME = r"[\.\-_A-Za-z0-9]+"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("events") / "data") as cloud:
        events = cloud.client("events")
        events.put_rule(Name="rule", EventPattern=PATTERN)
        events.create_archive(ArchiveName="archive", EventSourceArn=f"{BUS}default")
        cloud.client("logs").create_log_group(logGroupName="group-one")
        yield cloud


def refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error: Any = caught.value.response["Error"]
    return error["Code"], error["Message"]


def target(**members: Any) -> dict[str, Any]:
    return {"Rule": "rule", "Targets": [{"Id": "1", "Arn": QUEUE, **members}]}


PATH = {"InputPathsMap": {"a": "$.a"}, "InputTemplate": '"<a>"'}
WRONG = "1 validation error detected: Value '{}' at '{}' failed to satisfy constraint: Member must "
CALLS: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "create_connection",
        {"Name": "has spaces", "AuthorizationType": "NONE", "AuthParameters": {}},
        "ValidationException",
        (
            "2 validation errors detected: Value 'has spaces' at 'name' failed to satisfy constraint: Member must"
            f" satisfy regular expression pattern: {NAME}; Value 'NONE' at 'authorizationType' failed to satisfy"
            " constraint: Member must satisfy enum value set: [BASIC, OAUTH_CLIENT_CREDENTIALS, API_KEY]"
        ),
    ),
    (
        "describe_connection",
        {"Name": "no"},
        "ResourceNotFoundException",
        "Failed to describe the connection(s). Connection 'no' does not exist.",
    ),
    (
        "describe_api_destination",
        {"Name": "no"},
        "ResourceNotFoundException",
        "Failed to describe the api-destination(s). An api-destination 'no' does not exist.",
    ),
    (
        "list_archives",
        {"EventSourceArn": f"{BUS}no"},
        "ResourceNotFoundException",
        "Event bus no does not exist.",
    ),
    (
        "update_archive",
        {"ArchiveName": "no"},
        "ValidationException",
        "At least one of EventPattern, RetentionDays or Description must be provided.",
    ),
    (
        "describe_rule",
        {"Name": "no"},
        "ResourceNotFoundException",
        "Rule no does not exist on EventBus default.",
    ),
    (
        "put_targets",
        target(Id="!@#"),
        "ValidationException",
        WRONG.format("!@#", "targets.1.member.id") + f"satisfy regular expression pattern: {NAME}",
    ),
    (
        "put_targets",
        target(Id="x" * 65),
        "ValidationException",
        WRONG.format("x" * 65, "targets.1.member.id") + "have length less than or equal to 64",
    ),
    (
        "put_targets",
        target(InputTransformer={**PATH, "InputTemplate": '"<other>"'}),
        "ValidationException",
        "InputTemplate for target 1 contains invalid placeholder other.",
    ),
    (
        "put_targets",
        target(InputTransformer=PATH, InputPath="$.a"),
        "ValidationException",
        "Only one of Input, InputPath, or InputTransformer must be provided for target 1.",
    ),
    (
        "put_targets",
        {"Rule": "rule", "Targets": [{"Id": str(n), "Arn": QUEUE} for n in range(6)]},
        "LimitExceededException",
        "The requested resource exceeds the maximum number allowed.",
    ),
    (
        "tag_resource",
        {"ResourceARN": f"{BUS}no", "Tags": []},
        "ResourceNotFoundException",
        "Event bus no does not exist.",
    ),
    (
        "put_events",
        {"Entries": [{"Source": "a", "DetailType": "b", "Detail": json.dumps({"a": "x" * 2**20})}]},
        "ValidationException",
        "Total size of the entries in the request is over the limit.",
    ),
    (
        "start_replay",
        {
            "ReplayName": "r",
            "EventSourceArn": "arn:aws:events:us-east-1:000000000000:archive/archive",
            "EventStartTime": datetime(2026, 1, 1, tzinfo=UTC),
            "EventEndTime": datetime(2026, 1, 1, tzinfo=UTC),
            "Destination": {"Arn": f"{BUS}default"},
        },
        "ValidationException",
        "Parameter EventEndTime is not valid. Reason: EventStartTime must be before EventEndTime.",
    ),
]


@pytest.mark.parametrize(("operation", "params", "code", "message"), CALLS)
def test_what_is_invalid_is_refused(
    cloud: InProcessCloud, operation: str, params: dict[str, Any], code: str, message: str
) -> None:
    call = getattr(cloud.client("events"), operation)
    assert refusal(call, **params) == (code, message)


def test_five_targets_are_taken_also_again(cloud: InProcessCloud) -> None:
    events = cloud.client("events")
    targets = [{"Id": str(n), "Arn": QUEUE} for n in range(5)]
    for _ in range(2):
        assert events.put_targets(Rule="rule", Targets=targets)["FailedEntryCount"] == 0
    names = {
        "Id": "0",
        "Arn": QUEUE,
        "InputTransformer": {"InputTemplate": '"<aws.events.rule-arn>"'},
    }
    assert events.put_targets(Rule="rule", Targets=[names])["FailedEntryCount"] == 0


def test_events_for_a_bus_that_is_not_there_are_taken_and_dropped(cloud: InProcessCloud) -> None:
    entry = {"Source": "a", "DetailType": "b", "Detail": "{}"}
    entries = [entry, {**entry, "EventBusName": "no"}, {**entry, "Detail": "no json"}]
    answer = cloud.client("events").put_events(Entries=entries)
    assert answer["FailedEntryCount"] == 1
    assert ["EventId" in one for one in answer["Entries"]] == [True, True, False]
    only = cloud.client("events").put_events(Entries=[{**entry, "EventBusName": f"{BUS}no"}])
    assert (only["FailedEntryCount"], len(only["Entries"])) == (0, 1)


def test_log_groups_are_found_by_a_part_of_their_name(cloud: InProcessCloud) -> None:
    logs = cloud.client("logs")
    (group,) = logs.describe_log_groups(logGroupNamePattern="p-o")["logGroups"]
    assert set(group) == {"arn", "creationTime", "logGroupName"}
    assert logs.describe_log_groups(logGroupNamePattern="P-O")["logGroups"] == []
    assert refusal(logs.describe_log_groups, logGroupNamePattern="p", logGroupNamePrefix="g") == (
        "InvalidParameterException",
        "LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters.",
    )
    assert refusal(
        logs.describe_log_streams, logGroupName="group-one", logGroupIdentifier="group-one"
    ) == (
        "ValidationException",
        "LogGroup name and LogGroup ARN are mutually exclusive parameters.",
    )
    assert refusal(logs.get_log_events, logGroupName="group-one", logStreamName="no") == (
        "ResourceNotFoundException",
        "The specified log stream does not exist.",
    )
