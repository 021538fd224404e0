"""Faults on demand, in process: what rules do to requests, and what the page refuses."""

from __future__ import annotations

import json
from typing import Any

import cbor2
import pytest

from headrace.aws.calls.http import DROPPED, HttpRequest, HttpResponse
from tests.api.kinesis.streams import Streams, failure
from tests.support.cloud import ACCOUNT, InProcessCloud

PATH = "/_headrace/faults"
THROTTLED = "ProvisionedThroughputExceededException"


class Page:
    """The admin page."""

    def __init__(self, cloud: InProcessCloud) -> None:
        self._cloud = cloud

    def ask(self, method: str, path: str = "", value: Any = None) -> tuple[int, Any]:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        answer = self._cloud.handle(HttpRequest(method, PATH + path, body=body))
        assert isinstance(answer.body, bytes)
        return answer.status, json.loads(answer.body)

    def add(self, fault: str, **members: Any) -> str:
        status, rule = self.ask("POST", value={"fault": fault, **members})
        assert status == 201, rule
        return rule["id"]

    def acted(self) -> list[int]:
        return [rule["acted"] for rule in self.ask("GET")[1]["faults"]]


@pytest.fixture
def page(cloud: InProcessCloud) -> Page:
    return Page(cloud)


def put(kinesis: Any, name: str = "flights", **params: Any) -> Any:
    return kinesis.put_record(StreamName=name, Data=b"x", PartitionKey="k", **params)


def test_rules_are_listed_and_removed(page: Page) -> None:
    assert page.ask("GET") == (200, {"faults": []})
    first = page.add("error", service="kinesis", action="PutRecord", probability=0.5, seed=7)
    second = page.add("latency", latency_ms=5)
    assert page.ask("GET")[1]["faults"] == [
        {
            "id": first,
            "fault": "error",
            "service": "kinesis",
            "action": "PutRecord",
            "probability": 0.5,
            "seed": 7,
            "acted": 0,
        },
        {"id": second, "fault": "latency", "probability": 1.0, "latency_ms": 5, "acted": 0},
    ]
    assert page.ask("DELETE", f"/{first}") == (200, {"removed": 1})
    assert page.ask("DELETE", f"/{first}")[0] == 404
    assert page.ask("DELETE") == (200, {"removed": 1})
    assert page.ask("PUT")[0] == 405


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b"{", "A fault is a JSON object."),
        ([], "A fault is a JSON object."),
        ({}, "The member 'fault' must be one of throttle, error, partial, latency, drop."),
        ({"fault": []}, "The member 'fault' must be one of throttle, error, partial, latency, drop."),
        ({"fault": "drop", "probability": 0}, "The member 'probability' must be above 0 and at most 1."),
        ({"fault": "drop", "probability": "1"}, "The member 'probability' must be a number."),
        ({"fault": "drop", "count": 0}, "The member 'count' must be at least 1."),
        ({"fault": "drop", "count": 1.5}, "The member 'count' must be a whole number."),
        ({"fault": "drop", "seed": True}, "The member 'seed' must be a whole number."),
        ({"fault": "drop", "stream": ""}, "The member 'stream' must be a text that is not empty."),
        ({"fault": "drop", "when": "now"}, "The member 'when' must be before or after."),
        ({"fault": "error", "when": "after"}, "Only a drop fault has 'when'."),
        ({"fault": "latency"}, "A latency fault has 'latency_ms', and no other fault has it."),
        (
            {"fault": "latency", "latency_ms": 600_001},
            "The member 'latency_ms' must be at least 1 and at most 600000.",
        ),
        ({"fault": "drop", "error_code": "X"}, "A drop fault has no error."),
        ({"fault": "partial", "action": "PutRecord"}, "Only PutRecords fails in part."),
        ({"fault": "partial", "service": "firehose"}, "Only Kinesis has partial faults."),
        ({"fault": "drop", "service": "s3", "shard": "x"}, "Only Kinesis has streams and shards."),
        ({"fault": "drop", "action": "PutRecord"}, "A fault with 'action' needs 'service'."),
        (
            {"fault": "drop", "stream": "flights"},
            "There is no stream 'flights', there are none; for one that is yet to be made, set even_if_missing.",
        ),
        (
            {"fault": "drop", "shard": "shardId-000000000000"},
            ("There is no shard 'shardId-000000000000', there are none; for one that is yet to be made, "
            "set even_if_missing."),
        ),
        (
            {"fault": "drop", "stream": "flights", "even_if_missing": "yes"},
            "The member 'even_if_missing' must be true or false.",
        ),
    ],
)  # fmt: skip
def test_a_rule_that_says_something_impossible_is_refused(
    page: Page, value: Any, sentence: str
) -> None:
    assert page.ask("POST", value=value) == (400, {"message": sentence})
    assert page.ask("GET")[1] == {"faults": []}


def test_an_unknown_member_is_refused(page: Page) -> None:
    status, answer = page.ask("POST", value={"fault": "drop", "propability": 0.1})
    assert status == 400
    assert answer["message"].startswith("A fault has no member 'propability'; it has fault, ")


def test_a_service_or_action_that_there_is_not_is_refused_with_the_nearest_names(
    page: Page,
) -> None:
    for members, sentence in (
        ({"service": "kinesys"}, "There is no AWS service 'kinesys'; the nearest are kinesis, "),
        (
            {"service": "kinesis", "action": "putrecords"},
            "The service kinesis has no action 'putrecords'; the nearest are PutRecords, PutRecord, ",
        ),
    ):
        status, answer = page.ask("POST", value={"fault": "drop", **members})
        assert status == 400
        assert answer["message"].startswith(sentence)


def test_a_fault_on_a_stream_or_shard_that_is_not_there_names_those_that_are(
    streams: Streams, page: Page
) -> None:
    for name in ("delays", "flights", *(f"other-{number}" for number in range(10))):
        streams.create(name)
    status, answer = page.ask("POST", value={"fault": "error", "stream": "fligths"})
    assert status == 400
    assert answer["message"].startswith("There is no stream 'fligths', there are flights, ")
    assert " and 2 more; for one that is yet to be made, " in answer["message"]
    wrong = {"fault": "error", "stream": "flights", "shard": "shardId-000000000001"}
    assert page.ask("POST", value=wrong) == (
        400,
        {
            "message": "There is no shard 'shardId-000000000001' in the stream flights, there are "
            "shardId-000000000000; for one that is yet to be made, set even_if_missing."
        },
    )
    assert page.ask("GET")[1] == {"faults": []}


def test_a_fault_may_wait_for_a_stream_that_is_yet_to_be_made(
    streams: Streams, kinesis: Any, page: Page
) -> None:
    page.add("error", stream="flights", even_if_missing=True, count=1)
    assert "even_if_missing" not in page.ask("GET")[1]["faults"][0]
    assert failure(kinesis.create_stream, StreamName="flights").code == "InternalFailure"
    streams.create()
    put(kinesis)


def test_throttling_has_awss_words_and_ends_with_its_count(
    streams: Streams, kinesis: Any, page: Page
) -> None:
    streams.create()
    page.add("throttle", service="kinesis", action="PutRecord", count=2)
    for _ in range(2):
        failed = failure(put, kinesis=kinesis)
        assert (failed.code, failed.status) == (THROTTLED, 400)
        assert failed.message == (
            f"Rate exceeded for shard shardId-000000000000 in stream flights under account {ACCOUNT}."
        )
    put(kinesis)
    assert page.acted() == [2]
    page.add("throttle", service="kinesis", action="ListStreams")
    assert failure(kinesis.list_streams).code == "LimitExceededException"


def test_internal_errors_store_nothing(streams: Streams, kinesis: Any, page: Page) -> None:
    streams.create()
    page.add("error", service="kinesis", action="PutRecord", count=1)
    failed = failure(put, kinesis=kinesis)
    assert (failed.code, failed.status) == ("InternalFailure", 500)
    assert streams.texts() == []


def test_an_error_may_be_any(streams: Streams, kinesis: Any, page: Page) -> None:
    streams.create()
    page.add("error", service="kinesis", error_code="KMSDisabledException", error_message="Off.")
    failed = failure(put, kinesis=kinesis)
    assert (failed.code, failed.message, failed.status) == ("KMSDisabledException", "Off.", 400)


def test_an_error_in_cbor_is_cbor(streams: Streams, cloud: InProcessCloud, page: Page) -> None:
    streams.create()
    page.add("error", service="kinesis")
    answer = cloud.json_request(
        "Kinesis_20131202.ListStreams",
        cbor2.dumps({}),
        content_type="application/x-amz-cbor-1.1",
    )
    assert answer.status == 500
    assert isinstance(answer.body, bytes)
    assert cbor2.loads(answer.body)["__type"] == "InternalFailure"


def test_a_rule_may_be_of_one_stream_or_one_shard(
    streams: Streams, kinesis: Any, page: Page
) -> None:
    streams.create(shards=2)
    streams.create("delays")
    page.add("error", stream="flights", shard="shardId-000000000001")
    put(kinesis, "delays")
    put(kinesis, ExplicitHashKey="0")
    assert failure(put, kinesis=kinesis, ExplicitHashKey=str(2**127)).code == "InternalFailure"
    streams.drain("shardId-000000000000")
    page.ask("DELETE")
    iterator = streams.iterator(shard="shardId-000000000001")
    page.add("error", stream="flights", shard="shardId-000000000001")
    assert failure(kinesis.get_records, ShardIterator=iterator).code == "InternalFailure"
    assert kinesis.list_shards(StreamName="flights")["Shards"]
    page.ask("DELETE")
    page.add("error", stream="flights")
    assert failure(kinesis.list_shards, StreamName="flights").code == "InternalFailure"
    assert kinesis.list_shards(StreamName="delays")["Shards"]


def test_some_records_of_a_put_fail_and_the_others_are_stored(
    streams: Streams, kinesis: Any, page: Page
) -> None:
    streams.create()
    page.add("partial", stream="flights", probability=0.5, seed=3)
    answer = kinesis.put_records(
        StreamName="flights",
        Records=[{"Data": str(i).encode(), "PartitionKey": "k"} for i in range(20)],
    )
    failed = [i for i, record in enumerate(answer["Records"]) if "ErrorCode" in record]
    assert answer["FailedRecordCount"] == len(failed) == page.acted()[0]
    assert 0 < len(failed) < 20
    assert {answer["Records"][i]["ErrorCode"] for i in failed} == {THROTTLED}
    assert streams.texts() == [str(i) for i in range(20) if i not in failed]


def test_partial_failures_may_be_internal_ones(streams: Streams, kinesis: Any, page: Page) -> None:
    streams.create()
    page.add("partial", count=1, error_code="InternalFailure")
    first, second = streams.put("a", "b")
    assert first == {"ErrorCode": "InternalFailure", "ErrorMessage": "Internal service failure."}
    assert second["ShardId"] == "shardId-000000000000"


def test_the_long_way_fails_in_part_as_the_short_cut_does(streams: Streams, page: Page) -> None:
    streams.create()
    records = [{"Data": "eA==", "PartitionKey": str(i)} for i in range(30)]
    seen: list[list[bool]] = []
    for extra in ({}, {"Unknown": 1}):
        page.ask("DELETE")
        page.add("partial", probability=0.3, seed=11)
        _, answer = streams.raw(
            "PutRecords", {"StreamName": "flights", "Records": records, **extra}
        )
        seen.append(["ErrorCode" in record for record in answer["Records"]])
    assert seen[0] == seen[1]
    assert any(seen[0])


def test_the_same_seed_gives_the_same_faults(streams: Streams, kinesis: Any, page: Page) -> None:
    streams.create()

    def fates(seed: int) -> list[bool]:
        page.ask("DELETE")
        page.add("error", service="kinesis", action="PutRecord", probability=0.4, seed=seed)
        usual = {"StreamName": "flights", "Data": "eA==", "PartitionKey": "k"}
        return [streams.raw("PutRecord", usual)[0] == 500 for _ in range(40)]

    first = fates(1)
    assert 5 < sum(first) < 30
    assert fates(1) == first
    assert fates(2) != first


def test_latency_is_waited_on_the_clock_and_off_the_event_loop(
    streams: Streams, cloud: InProcessCloud, kinesis: Any, page: Page
) -> None:
    streams.create()
    inline = HttpRequest("POST", "/", "", {"x-amz-target": "Kinesis_20131202.PutRecord"})
    assert cloud.cloud.gateway.inline.has(inline)
    page.add("latency", service="kinesis", action="PutRecord", latency_ms=30)
    assert not cloud.cloud.gateway.inline.has(inline)
    put(kinesis)
    assert page.acted() == [1]
    page.ask("DELETE")
    assert cloud.cloud.gateway.inline.has(inline)


def test_a_connection_is_dropped_before_or_after_the_request_is_done(
    streams: Streams, cloud: InProcessCloud, page: Page
) -> None:
    streams.create()

    def dropped() -> bool:
        body = b'{"StreamName":"flights","Data":"eA==","PartitionKey":"k"}'
        answer = cloud.json_request("Kinesis_20131202.PutRecord", body)
        assert isinstance(answer, HttpResponse)
        return answer.status == DROPPED and answer.body == b""

    page.add("drop", service="kinesis", action="PutRecord", count=1)
    assert dropped()
    assert streams.texts() == []
    page.add("drop", service="kinesis", action="PutRecord", when="after", count=1)
    assert dropped()
    assert streams.texts() == ["x"]
    assert not dropped()


def test_other_services_fail_in_their_own_words(cloud: InProcessCloud, page: Page) -> None:
    page.add("throttle", service="lambda", action="ListFunctions")
    page.add("throttle", service="s3", action="ListBuckets")
    page.add("throttle", service="sqs", action="ListQueues")
    page.add("error", service="sns")
    page.add("throttle", service="cloudformation", action="DescribeStacks")
    calls = {
        ("TooManyRequestsException", 429): cloud.client("lambda").list_functions,
        ("SlowDown", 503): cloud.client("s3").list_buckets,
        ("ThrottlingException", 400): cloud.client("sqs").list_queues,
        ("InternalFailure", 500): cloud.client("sns").list_topics,
        ("Throttling", 400): cloud.client("cloudformation").describe_stacks,
    }
    for (code, status), call in calls.items():
        failed = failure(call)
        assert (failed.code, failed.status) == (code, status)
    cloud.client("lambda").list_layers()
    cloud.client("cloudformation").list_stacks()


def test_what_services_do_among_themselves_does_not_fail(
    streams: Streams, cloud: InProcessCloud, page: Page
) -> None:
    streams.create()
    page.add("error")
    assert cloud.cloud.gateway.call("kinesis", "ListStreams", {})["StreamNames"] == ["flights"]


def test_a_request_of_the_wrong_form_is_of_no_stream(streams: Streams, page: Page) -> None:
    streams.create()
    page.add("error", stream="flights")
    for body in (b"{", b'{"StreamName":7}', b'{"StreamName":"flights"}'):
        status, _ = streams.raw("PutRecord", body)
        assert status in (400, 500)


def test_a_service_that_nobody_knows_may_fail_too(cloud: InProcessCloud, page: Page) -> None:
    page.add("error")
    scope = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/nonsense/aws4_request, Signature=x"
    answer = cloud.handle(HttpRequest("GET", "/", headers={"authorization": scope}))
    assert answer.status == 500
    assert isinstance(answer.body, bytes)
    assert json.loads(answer.body)["__type"] == "InternalFailure"
