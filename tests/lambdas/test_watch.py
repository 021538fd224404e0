"""The function that watches devices: windows of any cut give the alerts that pandas finds in all readings."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from scripts import simulated_devices as simulated
from tests.lambdas.folders import load

HANDLER, LOGIC = load("watch")
WINDOW = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:00:10Z"}


class Fakes:
    """DynamoDB's table and SNS's topic, which may fail once each."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        self.alerts: list[dict[str, Any]] = []
        self.refuses_alerts = self.leaves_items = False

    def get_paginator(self, operation: str) -> Fakes:
        assert operation == "query"
        return self

    def paginate(self, **arguments: Any) -> list[dict[str, Any]]:
        shard_id = arguments["ExpressionAttributeValues"][":shard"]["S"]
        items = [item for key, item in sorted(self.rows.items()) if key[0] == shard_id]
        return [{"Items": items[at : at + 100]} for at in range(0, len(items), 100)]

    def batch_write_item(self, *, RequestItems: dict[str, Any]) -> dict[str, Any]:
        ((table, requests),) = RequestItems.items()
        assert len(requests) <= 25
        left = requests[-1:] if self.leaves_items else []
        self.leaves_items = False
        for request in requests[: len(requests) - len(left)]:
            item = request["PutRequest"]["Item"]
            self.rows[item["shard_id"]["S"], item["device"]["S"]] = item
        return {"UnprocessedItems": {table: left} if left else {}}

    def publish_batch(
        self, *, TopicArn: str, PublishBatchRequestEntries: list[dict[str, Any]]
    ) -> dict[str, Any]:
        assert TopicArn == "topic"
        assert len(PublishBatchRequestEntries) <= 10
        if self.refuses_alerts:
            return {"Failed": [{"Id": "0"}]}
        for entry in PublishBatchRequestEntries:
            alert = json.loads(entry["Message"])
            assert entry["MessageAttributes"]["kind"]["StringValue"] == alert["kind"]
            self.alerts.append(alert)
        return {}


def run(payloads: list[bytes], state: dict[str, Any], fakes: Fakes, *, final: bool) -> Any:
    records = [{"kinesis": {"data": base64.b64encode(each).decode()}} for each in payloads]
    event = {"Records": records, "window": WINDOW, "state": state, "shardId": "shardId-7",
             "isFinalInvokeForWindow": final, "isWindowTerminatedEarly": False}  # fmt: skip
    answer = HANDLER.process(
        event, dynamodb=fakes, sns=fakes, table="t", topic="topic", pause=lambda _: None
    )
    # What Lambda passes on is JSON.
    return json.loads(json.dumps(answer["state"]))


def payload(name: str, reading: dict[str, Any]) -> bytes:
    return json.dumps({**reading, "device": name}).encode()


@pytest.mark.parametrize("seed", range(5))
def test_any_windows_give_the_alerts_of_pandas(seed: int) -> None:
    chance, fakes = random.Random(seed), Fakes()
    sent = [each for minute in simulated.readings(80, 60, seed) for each in minute]
    payloads = [payload(*each) for each in sent]
    # A message of QoS 1 may come again.
    for _ in range(20):
        at = chance.randrange(len(payloads))
        payloads.insert(at, payloads[at])
    state: dict[str, Any] = {}
    while payloads:
        size = chance.randrange(1, 900)
        batch, payloads = payloads[:size], payloads[size:]
        ends = not payloads or chance.random() < 0.4
        state = run(batch, state, fakes, final=False)
        if ends:
            fakes.leaves_items = chance.random() < 0.5
            run([], state, fakes, final=True)
            state = {}

    found = [alert["id"] for alert in fakes.alerts]
    assert set(found) == simulated.expected_alerts(simulated.table_of(sent))
    assert len(found) == len(set(found)) > 10


def test_a_window_whose_alerts_are_refused_is_reported_again() -> None:
    fakes = Fakes()
    hot = payload("d", {"event_time": "2026-01-05T06:00:00+00:00", "celsius": 90})
    state = run([hot, b"no reading", b'{"device": "e"}'], {}, fakes, final=False)
    assert state["malformed"] == 2
    fakes.refuses_alerts = True
    with pytest.raises(RuntimeError, match="1 alerts could not be published"):
        run([], state, fakes, final=True)
    assert fakes.rows == {}
    fakes.refuses_alerts = False
    for _ in range(2):
        run([], state, fakes, final=True)
    assert [alert["kind"] for alert in fakes.alerts] == ["overheating"]


@pytest.mark.parametrize(
    "fields",
    [
        {"device": "", "celsius": 1},
        {"device": "d" * 1025, "celsius": 1},
        {"device": "\ud800", "celsius": 1},
        {"device": "d", "celsius": 10**400},
        {"device": "d", "celsius": "hot"},
        {"device": "d", "celsius": None},
    ],
)
def test_what_the_table_could_not_hold_is_malformed(fields: dict[str, Any]):
    """Such a record would fail its batch, or its window, again and again."""
    data = json.dumps({"event_time": "2026-01-05T06:00:00+00:00", **fields}).encode()
    state = run([data], {}, Fakes(), final=False)
    assert state == {"devices": {}, "malformed": 1}
