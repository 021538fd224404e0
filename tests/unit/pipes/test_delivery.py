"""What a pipe's targets get: parameters with paths, filled templates, and calls that wait."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from headrace.services.pipes.delivery import Batch, PipeFailed, deliver

WHERE = "us-east-1:000000000000"
QUEUE = f"arn:aws:sqs:{WHERE}:b.fifo"
STREAM = f"arn:aws:kinesis:{WHERE}:stream/b"
MACHINE = f"arn:aws:states:{WHERE}:stateMachine:m"


class Control:
    """Records calls; answers each with `output`."""

    def __init__(self, **output: Any) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._output = output

    def call(self, service: str, operation: str, params: dict[str, Any], **_: Any) -> Any:
        self.calls.append((f"{service}:{operation}", params))
        return self._output


def record(**data: Any) -> dict[str, Any]:
    return {"eventID": "e1", "data": base64.b64encode(json.dumps(data).encode()).decode()}


def delivered(
    target: str,
    events: list[dict[str, Any]],
    *,
    source: str = f"arn:aws:kinesis:{WHERE}:stream/a",
    control: Control | None = None,
    **parameters: Any,
) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that a pipe makes."""
    control = control or Control()
    batch = Batch(
        arn=f"arn:aws:pipes:{WHERE}:pipe/p",
        source=source,
        target=target,
        role_arn="",
        target_parameters=parameters,
    )
    whole: Any = control
    deliver(batch, events, whole, 1_700_000_000_000)
    return control.calls


def inputs(template: str, *events: dict[str, Any]) -> list[str]:
    calls = delivered(QUEUE, list(events), InputTemplate=template)
    return [params["MessageBody"] for _, params in calls]


# --- parameters with paths ----------------------------------------------------------------------


def test_paths_refer_to_the_event_not_to_the_filled_template():
    events = [record(id="seven", v=1), record(id="eight", v=2)]
    parameters = {"MessageGroupId": "$.data.id", "MessageDeduplicationId": "$.eventID"}
    calls = delivered(
        QUEUE,
        events,
        InputTemplate='{"v": <$.data.v>, "data": {"id": "shadow"}}',
        SqsQueueParameters=parameters,
    )
    assert [params["MessageGroupId"] for _, params in calls] == ["seven", "eight"]
    assert calls[0][1]["MessageDeduplicationId"] == "e1"
    assert json.loads(calls[0][1]["MessageBody"])["v"] == 1


def test_paths_within_lists_and_of_every_target_are_replaced():
    bus = f"arn:aws:events:{WHERE}:event-bus/b"
    given = {
        "Resources": ["$.data.arn", "fixed"],
        "Source": "$.data.s",
        "Time": "$.data.t",
    }
    event = record(arn="arn:x", s="shop", t="2026-01-02T03:04:05Z")
    ((_, params),) = delivered(
        bus, [event], InputTemplate="{}", EventBridgeEventBusParameters=given
    )
    (entry,) = params["Entries"]
    assert (entry["Resources"], entry["Source"]) == (["arn:x", "fixed"], "shop")
    assert entry["Time"].isoformat() == "2026-01-02T03:04:05+00:00"

    group = f"arn:aws:logs:{WHERE}:log-group:g"
    given = {"LogStreamName": "$.data.s", "Timestamp": "$.data.ms"}
    calls = delivered(
        group, [record(s="one", ms=5)], InputTemplate="x", CloudWatchLogsParameters=given
    )
    written = dict(calls)["logs:PutLogEvents"]
    assert (written["logStreamName"], written["logEvents"][0]["timestamp"]) == ("one", 5)


@pytest.mark.parametrize("path", ["$.data.other", "$.data.none", "$.data.id.deeper"])
def test_a_path_without_a_value_fails_the_event(path: str):
    control = Control()
    with pytest.raises(PipeFailed, match="no value at the path") as caught:
        delivered(
            STREAM,
            [record(id="x", none=None)],
            control=control,
            KinesisStreamParameters={"PartitionKey": path},
        )
    assert caught.value.may_pass
    assert control.calls == []


@pytest.mark.parametrize("service", ["sqs", "kinesis", "dynamodb"])
def test_events_of_a_bus_are_named_after_the_source(service: str):
    bus = f"arn:aws:events:{WHERE}:event-bus/b"
    ((_, params),) = delivered(bus, [{"a": 1}], source=f"arn:aws:{service}:{WHERE}:x")
    (entry,) = params["Entries"]
    assert (entry["DetailType"], entry["Source"]) == (f"Event from aws:{service}", "Pipe p")


# --- state machines -----------------------------------------------------------------------------


def test_a_machine_runs_synchronously_unless_it_is_to_be_forgotten():
    ((operation, params),) = delivered(MACHINE, [{"a": 1}], control=Control(status="SUCCEEDED"))
    assert (operation, params["input"]) == ("stepfunctions:StartSyncExecution", '[{"a": 1}]')
    given = {"InvocationType": "FIRE_AND_FORGET"}
    ((operation, _),) = delivered(MACHINE, [{"a": 1}], StepFunctionStateMachineParameters=given)
    assert operation == "stepfunctions:StartExecution"


@pytest.mark.parametrize("status", ["FAILED", "TIMED_OUT"])
def test_a_failed_execution_fails_the_batch(status: str):
    with pytest.raises(PipeFailed, match="why") as caught:
        delivered(MACHINE, [{"a": 1}], control=Control(status=status, cause="why"))
    assert caught.value.may_pass


# --- templates ----------------------------------------------------------------------------------

ORDER = {"body": json.dumps({"id": "456", "n": 7, "q": 'a "b"', "o": {"k": ["v"]}})}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("Order <$.body.id> is <$.body.n>", "Order 456 is 7"),
        ("[WARN] <$.body.q>", '[WARN] a "b"'),
        ('say "<$.body.id>"', 'say "456"'),
        ("<$.body.id>", '"456"'),
        ("{'not': <$.body.id>}", "{'not': 456}"),
        ('{"a": <$.body.id>, "b": "x <$.body.q>"}', '{"a": "456", "b": "x a \\"b\\""}'),
        ('{"a": <$.body.o>, "b": <$.body.none>}', '{"a": {"k":["v"]}, "b": ""}'),
        ('{"a": "<$.body.o>"}', '{"a": "{\\"k\\":[\\"v\\"]}"}'),
        ('{"a": "<not a path>"}', '{"a": "<not a path>"}'),
        ("<aws.pipes.pipe-name> 1 < 2", "p 1 < 2"),
        ("<aws.pipes.event.ingestion-time>!", "2023-11-14T22:13:20Z!"),
    ],
)
def test_values_take_the_form_of_their_place(template: str, expected: str):
    assert inputs(template, ORDER) == [expected]


def test_free_text_is_a_string_in_a_batch():
    control = Control()
    delivered(
        f"arn:aws:lambda:{WHERE}:function:f",
        [ORDER],
        control=control,
        InputTemplate="is <$.body.id>",
    )
    assert json.loads(control.calls[0][1]["Payload"]) == ["is 456"]


def test_a_template_that_repeats_its_event_is_refused():
    with pytest.raises(PipeFailed, match="InputTemplate asks for too much"):
        delivered(QUEUE, [{"x": "a" * 200_000}], InputTemplate="<$.x>" * 1600)
