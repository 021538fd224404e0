"""Transformation by a Lambda function."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import FunctionThrottled, InvokeResult
from headrace.services.firehose.s3_settings import check_processors
from headrace.services.firehose.transform import Stopping
from headrace.services.lambda_.runtime.platform_log import build_timeout_error
from tests.support.objects import Killed
from tests.unit.firehose.helpers import CONVERSION, FUNCTION, SHARD, Lab, processing


def answer(event: dict[str, Any], change: Any) -> dict[str, Any]:
    """Return a function's answer; `change` gives (result, data) for a record's data."""
    records: list[dict[str, Any]] = []
    for record in event["records"]:
        result, data = change(base64.b64decode(record["data"]))
        records.append(
            {
                "recordId": record["recordId"],
                "result": result,
                "data": base64.b64encode(data).decode(),
            }
        )
    return {"records": records}


def upper(event: dict[str, Any]) -> dict[str, Any]:
    return answer(event, lambda data: ("Ok", data.upper()))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path, ProcessingConfiguration=processing("Lambda", LambdaArn=FUNCTION))
    lab.functions.functions[FUNCTION] = upper
    return lab


def errors(lab: Lab) -> list[dict[str, Any]]:
    (key,) = [key for key in lab.objects.objects if "processing-failed" in key]
    return [json.loads(line) for line in lab.objects.objects[key].splitlines()]


def test_records_are_delivered_as_the_function_returns_them(lab: Lab):
    lab.put(b"one", b"two")
    lab.deliver()
    assert list(lab.objects.objects.values()) == [b"ONETWO"]
    (event,) = lab.functions.events
    assert event["deliveryStreamArn"] == lab.stream.arn
    assert event["sourceKinesisStreamArn"] == lab.stream.source_arn
    record = event["records"][0]
    assert record["approximateArrivalTimestamp"] == 1_700_000_000_000
    metadata = record["kinesisRecordMetadata"]
    assert (metadata["shardId"], metadata["partitionKey"]) == (SHARD, "key")
    assert record["recordId"].startswith(metadata["sequenceNumber"])


def test_dropped_records_are_nowhere_and_failed_ones_in_the_errors(lab: Lab):
    results = {b"good": "Ok", b"drop": "Dropped", b"fail": "ProcessingFailed"}
    lab.functions.functions[FUNCTION] = lambda event: answer(event, lambda d: (results[d], d))
    lab.put(b"drop", b"good", b"fail")
    lab.deliver()
    (failure,) = errors(lab)
    assert base64.b64decode(failure["rawData"]) == b"fail"
    assert failure["errorCode"] == "Lambda.ProcessingFailedStatus"
    assert failure["lambdaARN"] == FUNCTION
    assert min(lab.objects.objects.values()) == b"good"
    assert lab.delivery.progress.failed_records == 1


def test_a_failing_function_is_tried_four_times_then_its_records_are_set_aside(lab: Lab):
    lab.functions.functions[FUNCTION] = lambda _: 1 / 0
    lab.put(b"one")
    lab.deliver()
    (failure,) = errors(lab)
    assert (failure["errorCode"], failure["attemptsMade"]) == ("Lambda.FunctionError", 4)
    assert len(lab.functions.events) == 4


def test_a_function_that_takes_too_long(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    late = build_timeout_error("r", 3.0, 0).payload
    result = InvokeResult(late, "Unhandled", "$LATEST", "r")
    monkeypatch.setattr(lab.functions, "invoke", lambda *_: result)
    lab.put(b"one")
    lab.deliver()
    (failure,) = errors(lab)
    # Observed by others in an error output of AWS's, 2022.
    assert (failure["errorCode"], failure["attemptsMade"]) == ("Lambda.FunctionTimedOut", 4)
    assert failure["errorMessage"].startswith("The Lambda function invocation timed out.")


def test_a_function_that_is_not_there(lab: Lab):
    lab.functions.functions.clear()
    lab.put(b"one")
    lab.deliver()
    assert errors(lab)[0]["errorCode"] == "Lambda.ResourceNotFound"


@pytest.mark.parametrize("throttled", [3, 4])
def test_a_function_that_is_throttled_is_tried_four_times(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, throttled: int
):
    # Documented: data-transformation.html, "you've reached the Lambda invocation limit"; the pauses are assumed.
    tries_s: list[float] = []
    invoke = lab.functions.invoke

    def refuse(arn: str, payload: bytes) -> InvokeResult:
        tries_s.append(lab.clock.monotonic_s())
        if len(tries_s) <= throttled:
            raise FunctionThrottled
        return invoke(arn, payload)

    monkeypatch.setattr(lab.functions, "invoke", refuse)
    lab.put(b"one")
    lab.deliver()
    assert [then - first for first, then in pairwise(tries_s)] == [1, 2, 4]
    if throttled == 3:
        assert list(lab.objects.objects.values()) == [b"ONE"]
        return
    (failure,) = errors(lab)
    assert (failure["errorCode"], failure["attemptsMade"]) == ("Lambda.InvokeLimitExceeded", 4)


def test_a_throttled_function_s_records_wait_for_a_cloud_that_stops(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    def refuse(arn: str, payload: bytes) -> InvokeResult:
        lab.ports.stopping.set()
        raise FunctionThrottled

    monkeypatch.setattr(lab.functions, "invoke", refuse)
    lab.put(b"one")
    with pytest.raises(Stopping):
        lab.deliver()
    assert not lab.objects.objects


@pytest.mark.parametrize(
    ("returned", "code"),
    [
        ({"records": []}, "Lambda.MissingRecordId"),
        ({}, "Lambda.MissingRecordId"),
        ({"records": None}, "Lambda.MissingRecordId"),
        ({"records": [7, {"recordId": 7}]}, "Lambda.MissingRecordId"),
        ({"rows": []}, "Lambda.MissingRecordId"),
        ("nonsense", "Lambda.MissingRecordId"),
    ],
)
def test_an_answer_that_firehose_cannot_use(lab: Lab, returned: Any, code: str):
    lab.functions.functions[FUNCTION] = lambda _: returned
    lab.put(b"one")
    lab.deliver()
    assert errors(lab)[0]["errorCode"] == code


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda records: records * 2, "Lambda.DuplicatedRecordId"),
        (lambda records: [{**records[0], "data": "?"}], "Lambda.InvalidReturnFormat"),
        (lambda records: [{**records[0], "data": None}], "Lambda.InvalidReturnFormat"),
        (lambda records: [{**records[0], "data": 1234}], "Lambda.InvalidReturnFormat"),
        (lambda records: [{**records[0], "data": True}], "Lambda.InvalidReturnFormat"),
        (lambda records: [{**records[0], "data": "=Cg=="}], "Lambda.InvalidReturnFormat"),
        (lambda records: [{**records[0], "data": "YWI=Cg"}], "Lambda.InvalidReturnFormat"),
        (lambda records: [{"recordId": records[0]["recordId"]}], "Lambda.InvalidReturnFormat"),
        (lambda records: [{**records[0], "result": "Fine"}], "Lambda.InvalidReturnFormat"),
    ],
)
def test_a_record_that_firehose_cannot_use(lab: Lab, spoil: Any, code: str):
    lab.functions.functions[FUNCTION] = lambda event: {"records": spoil(upper(event)["records"])}
    lab.put(b"one")
    lab.deliver()
    assert errors(lab)[0]["errorCode"] == code


@pytest.mark.parametrize("record", [b"a", b"ab", b"abc", b""])
def test_a_line_feed_may_be_appended_to_padded_data(lab: Lab, record: bytes):
    lab.functions.functions[FUNCTION] = lambda event: {
        "records": [
            {**each, "result": "Ok", "data": each["data"] + "Cg=="} for each in event["records"]
        ]
    }
    lab.put(record, record)
    lab.deliver()
    assert list(lab.objects.objects.values()) == [(record + b"\n") * 2]


def test_base64_may_have_line_ends(lab: Lab):
    data = base64.encodebytes(b"x" * 100).decode()
    lab.functions.functions[FUNCTION] = lambda event: {
        "records": [{**each, "result": "Ok", "data": data} for each in event["records"]]
    }
    lab.put(b"one")
    lab.deliver()
    assert list(lab.objects.objects.values()) == [b"x" * 100]


def test_a_bad_answer_for_a_record_fails_that_record_alone(lab: Lab):
    def spoil(event: dict[str, Any]) -> dict[str, Any]:
        one, two, three, four, *_ = upper(event)["records"]
        return {"records": [one, two, two, {**three, "data": None}, {**four, "recordId": "stray"}]}

    lab.functions.functions[FUNCTION] = spoil
    lab.put(b"one", b"two", b"three", b"four")
    lab.deliver()
    assert min(lab.objects.objects.values()) == b"ONE"
    assert {base64.b64decode(one["rawData"]): one["errorCode"] for one in errors(lab)} == {
        b"two": "Lambda.DuplicatedRecordId",
        b"three": "Lambda.InvalidReturnFormat",
        b"four": "Lambda.MissingRecordId",
    }


def test_records_go_in_batches_of_the_size_that_was_asked_for(lab: Lab):
    lab.put(*[b"x" * 300_000] * 4)
    lab.settle()
    assert [len(event["records"]) for event in lab.functions.events] == [3, 1]


def test_many_small_records_do_not_exceed_what_an_invocation_takes(lab: Lab):
    lab.put(*[b"x"] * 20_000)
    lab.deliver()
    assert sum(len(event["records"]) for event in lab.functions.events) == 20_000
    assert max(len(json.dumps(event)) for event in lab.functions.events) < 6_000_000
    assert lab.delivered == b"X" * 20_000


def test_a_kill_after_the_object_delivers_once_although_the_function_runs_again(lab: Lab):
    calls: list[int] = []

    def fickle(event: dict[str, Any]) -> dict[str, Any]:
        calls.append(1)
        return answer(event, lambda data: ("Ok" if len(calls) == 1 else "Dropped", data))

    lab.functions.functions[FUNCTION] = fickle
    lab.put(b"one")
    lab.settle()
    lab.clock.advance(60)
    lab.objects.fates = ["die after"]
    with pytest.raises(Killed):
        lab.settle()
    lab.start()
    lab.settle()
    # The later answer is the one that counts: nothing of the first is left.
    assert lab.objects.objects == {}
    assert lab.delivery.progress.delivered_records == 0


def test_a_function_that_fails_because_the_cloud_stops_loses_nothing(lab: Lab):
    lab.functions.functions[FUNCTION] = lambda _: 1 / 0
    lab.put(b"one")
    lab.settle()
    lab.clock.advance(60)
    lab.ports.stopping.set()
    with pytest.raises(Stopping):
        lab.settle()
    lab.functions.functions[FUNCTION] = upper
    lab.start()
    lab.deliver()
    assert list(lab.objects.objects.values()) == [b"ONE"]


def test_transformed_records_are_converted(tmp_path: Path):
    configuration = processing("Lambda", LambdaArn=FUNCTION)
    lab = Lab(tmp_path, **CONVERSION, ProcessingConfiguration=configuration)
    lab.functions.functions[FUNCTION] = lambda event: answer(
        event, lambda data: ("Ok", b'{"a": %s}' % data)
    )
    lab.put(b"1", b"2")
    lab.deliver()
    (key,) = lab.objects.objects
    assert key.endswith(".parquet")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "LambdaArn is required when Lambda processor is used."),
        ({"LambdaArn": "arn:aws:s3:::b"}, "Invalid lambda ARN."),
        ({"LambdaArn": "arn:aws:lambda:us-east-1:000000000000:f"}, "Invalid lambda ARN."),
        ({"LambdaArn": FUNCTION, "NumberOfRetries": "many"}, "must be numbers"),
        (
            {"LambdaArn": FUNCTION, "NumberOfRetries": "-1"},
            "Number of retries for lambda must be between 0 and 300",
        ),
        (
            {"LambdaArn": FUNCTION, "BufferSizeInMBs": "4", "BufferIntervalInSeconds": "60"},
            "between 0.2 and 3.0",
        ),
        (
            {"LambdaArn": FUNCTION, "BufferSizeInMBs": "1", "BufferIntervalInSeconds": "901"},
            "BufferIntervalInSeconds for lambda processor must be between 0 and 900",
        ),
        (
            {"LambdaArn": FUNCTION, "BufferSizeInMBs": "1"},
            "Both BufferSizeInMBs and BufferIntervalInSeconds are required",
        ),
        (
            {"LambdaArn": FUNCTION, "BufferSizeInMBs": "nan", "BufferIntervalInSeconds": "60"},
            "between 0.2 and 3.0",
        ),
    ],
)
def test_parameters_that_are_refused(parameters: dict[str, str], message: str):
    with pytest.raises(AwsError) as caught:
        check_processors({"ProcessingConfiguration": processing("Lambda", **parameters)})
    assert message in caught.value.message
