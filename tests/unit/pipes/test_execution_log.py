"""The log records of a pipe's execution: which steps each level has, their data, and their bounds.

Documented: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-pipes-logs.html.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.services.pipes.delivery import Batch, PipeFailed, deliver

WHERE = "us-east-1:000000000000"
QUEUE = f"arn:aws:sqs:{WHERE}:q"
FUNCTION = f"arn:aws:lambda:{WHERE}:function:f"
GROUP = f"arn:aws:logs:{WHERE}:log-group:g"
FAILURE = AwsError("AWS.SimpleQueueService.NonExistentQueue", "no queue", 400)


class Control:
    """Takes calls; `fails` says which of those to services other than the log's fail."""

    def __init__(
        self, fails: Callable[[int], bool] = lambda _: False, enriched: bytes = b'[{"rich": 1}]'
    ) -> None:
        self.lines: list[str] = []
        self._enriched = enriched
        self._fails, self._calls = fails, 0

    def call(self, service: str, operation: str, params: dict[str, Any], **_: Any) -> Any:
        if service == "logs":
            self.lines += [event["message"] for event in params.get("logEvents", ())]
            return {}
        self._calls += 1
        if self._fails(self._calls):
            raise FAILURE
        return {"Payload": self._enriched} if service == "lambda" else {"Id": 1}


def logged(
    level: str,
    *events: Any,
    control: Control | None = None,
    enrichment: str = "",
    target: str = QUEUE,
    template: str = "",
    **configuration: Any,
) -> list[dict[str, Any]]:
    """Return the records of one batch's delivery to a queue, whether it fails or not."""
    control = control or Control()
    destination = {"CloudwatchLogsLogDestination": {"LogGroupArn": GROUP}}
    batch = Batch(
        arn=f"arn:aws:pipes:{WHERE}:pipe/p",
        source=f"arn:aws:kinesis:{WHERE}:stream/a",
        target=target,
        role_arn="",
        enrichment=enrichment,
        enrichment_parameters={"InputTemplate": template} if template else {},
        target_parameters={"InputTemplate": template} if template else {},
        log_configuration={"Level": level, **destination, **configuration},
    )
    whole: Any = control
    with contextlib.suppress(PipeFailed):
        deliver(batch, list(events), whole, 1_700_000_000_000)
    return [json.loads(line) for line in control.lines]


def steps(records: list[dict[str, Any]]) -> list[str]:
    return [record["messageType"] for record in records]


ALL = [
    "EXECUTION_STARTED",
    "ENRICHMENT_STAGE_ENTERED",
    "ENRICHMENT_TRANSFORMATION_STARTED",
    "ENRICHMENT_TRANSFORMATION_SUCCEEDED",
    "ENRICHMENT_INVOCATION_STARTED",
    "ENRICHMENT_INVOCATION_SUCCEEDED",
    "ENRICHMENT_STAGE_SUCCEEDED",
    "TARGET_STAGE_ENTERED",
    "TARGET_TRANSFORMATION_STARTED",
    "TARGET_TRANSFORMATION_SUCCEEDED",
    "TARGET_INVOCATION_STARTED",
    "TARGET_INVOCATION_SUCCEEDED",
    "TARGET_STAGE_SUCCEEDED",
    "EXECUTION_SUCCEEDED",
]
INFO = [step for step in ALL if "EXECUTION" in step or "STAGE" in step]


@pytest.mark.parametrize(
    ("level", "told"), [("TRACE", ALL), ("INFO", INFO), ("ERROR", []), ("OFF", [])]
)
def test_each_level_has_its_steps(level: str, told: list[str]):
    records = logged(level, {"n": 1}, enrichment=FUNCTION, template='{"a": 1}')
    assert steps(records) == told
    for record in records:
        assert (record["logLevel"], record["timestamp"]) == (level, 1_700_000_000_000)
        assert record["resourceArn"].endswith(":pipe/p")
        assert not {"payload", "awsRequest", "awsResponse", "error"} & set(record)
    assert len({record["executionId"] for record in records}) <= 1


def test_a_failure_is_told_at_every_level_with_its_error():
    records = logged("ERROR", {"n": 1}, control=Control(lambda _: True))
    assert steps(records) == ["TARGET_INVOCATION_FAILED", "TARGET_STAGE_FAILED", "EXECUTION_FAILED"]
    for record in records:
        assert record["error"]["httpStatusCode"] == 400
        assert "no queue" in record["error"]["message"]


def test_a_batch_that_was_delivered_in_part_failed_partially():
    records = logged("ERROR", {"n": 1}, {"n": 2}, control=Control(lambda call: call == 2))
    assert steps(records) == [
        "TARGET_INVOCATION_FAILED",
        "TARGET_STAGE_PARTIALLY_FAILED",
        "EXECUTION_PARTIALLY_FAILED",
    ]


@pytest.mark.parametrize("answer", [b"", b"null", b'""', b"{}", b"[]"])
def test_an_empty_answer_of_the_enrichment_keeps_the_target_from_being_invoked(answer: bytes):
    # Documented: https://docs.aws.amazon.com/eventbridge/latest/userguide/pipes-enrichment.html
    records = logged("TRACE", {"n": 1}, control=Control(enriched=answer), enrichment=FUNCTION)
    assert steps(records)[-2:] == ["TARGET_STAGE_SKIPPED", "EXECUTION_SUCCEEDED"]


@pytest.mark.parametrize("answer", [b"[{}]", b"0", b"false"])
def test_any_other_answer_of_the_enrichment_goes_to_the_target(answer: bytes):
    records = logged("TRACE", {"n": 1}, control=Control(enriched=answer), enrichment=FUNCTION)
    assert "TARGET_INVOCATION_SUCCEEDED" in steps(records)


FAILED = [
    "TARGET_INVOCATION_PARTIALLY_FAILED",
    "TARGET_STAGE_PARTIALLY_FAILED",
    "EXECUTION_PARTIALLY_FAILED",
]


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([], []),
        ([{"itemIdentifier": "b"}], FAILED),
        ([{"itemIdentifier": "z"}], [one.replace("PARTIALLY_", "") for one in FAILED]),
        ([{"itemIdentifier": None}], [one.replace("PARTIALLY_", "") for one in FAILED]),
    ],
)
def test_a_target_says_which_events_it_did_not_take(items: list[Any], told: list[str]):
    # Documented: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-pipes-batching-concurrency.html
    answer = json.dumps({"batchItemFailures": items}).encode()
    control = Control(enriched=answer)
    records = logged("ERROR", {"eventID": "a"}, {"eventID": "b"}, control=control, target=FUNCTION)
    assert steps(records) == told


def test_execution_data_is_in_the_documented_steps():
    records = logged(
        "TRACE",
        {"n": 1},
        enrichment=FUNCTION,
        template='{"a": <$.rich>}',
        IncludeExecutionData=["ALL"],
    )
    payloads = {r["messageType"]: json.loads(r["payload"]) for r in records if "payload" in r}
    assert payloads == {
        "EXECUTION_STARTED": [{"n": 1}],
        "ENRICHMENT_TRANSFORMATION_SUCCEEDED": [{"a": ""}],
        "ENRICHMENT_STAGE_SUCCEEDED": [{"rich": 1}],
        "TARGET_TRANSFORMATION_SUCCEEDED": [{"a": 1}],
        "TARGET_STAGE_SUCCEEDED": [{"a": 1}],
    }
    calls = {r["messageType"]: r for r in records if "awsRequest" in r}
    assert set(calls) == {"ENRICHMENT_INVOCATION_SUCCEEDED", "TARGET_INVOCATION_SUCCEEDED"}
    target = calls["TARGET_INVOCATION_SUCCEEDED"]
    assert json.loads(json.loads(target["awsRequest"])["MessageBody"]) == {"a": 1}
    assert json.loads(target["awsResponse"]) == {"Id": 1}


def test_a_record_has_at_most_256_kb_and_says_what_is_cut():
    control = Control()
    text = 'é"' * 200_000
    records = logged("TRACE", {"t": text}, control=control, IncludeExecutionData=["ALL"])
    started = records[0]
    assert started["truncatedFields"] == ["payload"]
    assert json.dumps([{"t": text}]).startswith(started["payload"])
    assert all(len(line) <= 262_118 for line in control.lines)
    # A cut is no deeper than it must be.
    assert len(control.lines[0]) > 262_100
    assert "truncatedFields" not in records[-1]
    invoked = next(r for r in records if r["messageType"] == "TARGET_INVOCATION_SUCCEEDED")
    assert invoked["truncatedFields"] == ["awsRequest"]
    assert json.loads(invoked["awsResponse"]) == {"Id": 1}
