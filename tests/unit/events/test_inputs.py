"""Input templates of rules: what each place makes of a value.

Recorded from AWS by LocalStack: tests/aws/services/events/test_events_inputs.py (`observed`), but for free text.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.services.events.targets import input_of

RULE = SimpleNamespace(arn="arn:aws:events:us-east-1:000000000000:rule/r", name="r")
EVENT: dict[str, Any] = {
    "id": "i",
    "detail-type": "kind",
    "time": 1_700_000_000,
    "source": "s",
    "detail": {"id": "0a", "o": {"a": "x", "b": "y"}, "l": ["HIGH", "LOW"], "n": 7},
}
PATHS = {
    "id": "$.detail.id",
    "o": "$.detail.o",
    "l": "$.detail.l",
    "n": "$.detail.n",
    "none": "$.x",
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ('"Payload of <o> and <id>"', '"Payload of {a:x,b:y} and 0a"'),
        ('"<l> items"\n"<none> id"', '"[HIGH,LOW] items"\n" id"'),
        ('"{[/ special <id>"', '"{[/ special 0a"'),
        ('{"id" : <id>, "n": <n>}', '{"id" : "0a", "n": 7}'),
        (
            '{"id": "<id>", "deep": {"path": "users/<id>/<id>"}}',
            '{"id": "0a", "deep": {"path": "users/0a/0a"}}',
        ),
        ('{"bod": [<id>, "fixed"], "o": <o>}', '{"bod": ["0a", "fixed"], "o": {"a":"x","b":"y"}}'),
        ('{"none": <none>}', '{"none": ""}'),
        ("<id> has <n>", "0a has 7"),
        ('"<aws.events.rule-arn> <aws.events.rule-name>"', f'"{RULE.arn} r"'),
        ('"<aws.events.event.ingestion-time>"', '"2023-11-14T22:13:20Z"'),
    ],
)
def test_values_take_the_form_of_their_place(template: str, expected: str):
    target = {"InputTransformer": {"InputPathsMap": PATHS, "InputTemplate": template}}
    assert input_of(target, EVENT, RULE).decode() == expected


def test_the_event_is_a_variable_with_and_without_its_detail():
    template = '{"e": <aws.events.event>, "j": <aws.events.event.json>}'
    transformer = {"InputPathsMap": {}, "InputTemplate": template}
    made = json.loads(input_of({"InputTransformer": transformer}, EVENT, RULE))
    time = "2023-11-14T22:13:20Z"
    assert made["e"] == {"id": "i", "detailType": "kind", "time": time, "source": "s"}
    assert made["j"] == {**EVENT, "time": time}
