"""TestEventPattern, and that rules, pipes and mappings refuse the same patterns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

EVENT = {"source": "shop", "detail-type": "t", "detail": {"items": [{"name": "order", "n": 1}]}}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("patterns") / "data") as cloud:
        yield cloud


def refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error: Any = dict(caught.value.response)["Error"]
    return error["Code"], error["Message"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({"detail": {"items": {"name": ["order"]}}}, True),
        ({"detail": {"items": {"name": ["order"], "n": [2]}}}, False),
        ({"detail": {"items": [{"exists": True}]}}, False),
    ],
)
def test_a_pattern_can_be_tried(cloud: InProcessCloud, pattern: Any, expected: bool):
    answer = cloud.client("events").test_event_pattern(
        EventPattern=json.dumps(pattern), Event=json.dumps(EVENT)
    )
    assert answer["Result"] is expected


@pytest.mark.parametrize("event", ["plain", "[]", '"{}"'])
def test_what_is_no_event_is_refused(cloud: InProcessCloud, event: str):  # recorded
    code, message = refusal(
        cloud.client("events").test_event_pattern, EventPattern='{"a":["b"]}', Event=event
    )
    assert (code, message) == ("ValidationException", "Parameter Event is not valid.")


def test_every_door_refuses_what_is_no_pattern(cloud: InProcessCloud):
    pattern = '{"a": [{"numeric": 10}]}'
    reason = (
        "Event pattern is not valid. Reason: Value of numeric must be an array."
        f'\n at [Source: (String)"{pattern}"; line: 1, column: 22]'
    )
    events = cloud.client("events")
    assert refusal(events.put_rule, Name="r", EventPattern=pattern)[1] == reason
    assert refusal(events.test_event_pattern, EventPattern=pattern, Event="{}")[1] == reason
    bus = f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/default"
    given = {"ArchiveName": "a", "EventSourceArn": bus, "EventPattern": pattern}
    assert refusal(events.create_archive, **given)[0] == "InvalidEventPatternException"
    queue = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"
    code, message = refusal(
        cloud.client("pipes").create_pipe,
        Name="p",
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/r",
        Source=queue,
        SourceParameters={"FilterCriteria": {"Filters": [{"Pattern": pattern}]}},
        Target=queue,
    )
    assert (code, message) == ("ValidationException", reason)
