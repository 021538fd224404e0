"""Delivery streams to HTTP endpoints, OpenSearch and Splunk: retries, kills, error output, backup."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.services.firehose.destinations import DESTINATIONS
from tests.support.endpoint import Endpoint, Request, answer, endpoint, json_answer
from tests.support.hec import TOKEN, Hec, hec, says
from tests.unit.firehose.destinations.helpers import S3, DestinationLab
from tests.unit.firehose.helpers import INTERVAL_S, processing

SECRET = "arn:aws:secretsmanager:us-east-1:000000000000:secret:s"


def sound(request: Request) -> bytes:
    return json_answer(200, {"requestId": request.json["requestId"], "timestamp": 1})


def unauthorized(_: Request) -> bytes:
    return answer(401, "Unauthorized")


DOMAIN = "arn:aws:es:us-east-1:000000000000:domain/flights"


@pytest.fixture
def server() -> Iterator[Endpoint]:
    with endpoint(sound) as running:
        yield running


@pytest.fixture
def splunk() -> Iterator[Hec]:
    with hec() as running:
        yield running


def http(tmp_path: Path, server: Endpoint, *, retry_s: int = 60, **given: Any) -> DestinationLab:
    given = {
        "EndpointConfiguration": {"Url": f"{server.url}/in", "AccessKey": "k"},
        "RetryOptions": {"DurationInSeconds": retry_s},
        **given,
    }
    return DestinationLab(tmp_path, "HttpEndpoint", **given)


# --- HTTP endpoint ----------------------------------------------------------------------------


def test_a_buffer_is_one_request(tmp_path: Path, server: Endpoint):
    lab = http(tmp_path, server)
    lab.put(b"one", b"two")
    lab.settle()
    assert server.requests == []
    lab.deliver()
    (request,) = server.requests
    assert [record["data"] for record in request.json["records"]] == ["b25l", "dHdv"]
    assert request.headers["x-amz-firehose-access-key"] == "k"
    assert request.headers["x-amz-firehose-source-arn"] == lab.stream.arn
    assert lab.objects.objects == {}
    assert lab.is_drained
    names = {(m.name, m.value) for m in lab.metrics.metrics}
    assert ("DeliveryToHttpEndpoint.Success", 1) in names


def test_retries_keep_the_request_id_and_back_off(tmp_path: Path, server: Endpoint):
    server.behaviours = [unauthorized] * 3
    lab = http(tmp_path, server)
    lab.put(b"one")
    lab.deliver()
    seconds = lab.settle_until(lambda: lab.is_drained)
    assert len(server.requests) == 4
    assert len({r.headers["x-amz-firehose-request-id"] for r in server.requests}) == 1
    # 1 + 2 + 4 s, each with 15 % of jitter.
    assert 5 <= seconds <= 9
    assert lab.objects.objects == {}
    assert lab.codes[0] == "HttpEndpoint.DestinationException"


def test_when_the_retry_duration_is_over_the_error_output_has_awss_line(
    tmp_path: Path, server: Endpoint
):
    server.usual = unauthorized
    lab = http(tmp_path, server)
    arrived_ms = lab.clock.now_ms()
    lab.put(b"one", b"two")
    lab.deliver()
    seconds = lab.settle_until(lambda: lab.is_drained)
    assert 60 <= seconds <= 60 * 2.2
    first, second = lab.errors("http-endpoint-failed")
    assert first == {
        "attemptsMade": len(server.requests),
        "arrivalTimestamp": arrived_ms,
        "errorCode": "HttpEndpoint.DestinationException",
        "errorMessage": "Delivery to the endpoint was unsuccessful. See Troubleshooting HTTP Endpoints in the Firehose"
        " documentation for more information. Response received with status code. 401: Unauthorized",
        "attemptEndingTimestamp": lab.clock.now_ms(),
        "rawData": b"one",
        "subsequenceNumber": 0,
        "dataId": f"{lab.number(0)}.0",
    }
    assert second["rawData"] == b"two"
    assert len(lab.objects.objects) == 1


def test_an_error_output_that_cannot_be_written_has_each_record_once_in_the_end(
    tmp_path: Path, server: Endpoint
):
    server.usual = unauthorized
    """The endpoint is not asked once more."""
    lab = http(tmp_path, server, retry_s=0)
    lab.put(b"one", b"two")
    lab.objects.fates = ["refuse"] * 3
    lab.settle()
    lab.clock.advance(INTERVAL_S)
    for _ in range(3):
        with pytest.raises(OSError, match="no space left"):
            lab.settle()
    lab.settle()
    (body,) = lab.objects.objects.values()
    assert len(body.splitlines()) == 2
    assert lab.delivery.status()["failed_records"] == 2
    assert len(server.requests) == 1


def test_a_retry_duration_of_zero_is_one_try(tmp_path: Path, server: Endpoint):
    server.usual = unauthorized
    lab = http(tmp_path, server, retry_s=0)
    lab.put(b"one")
    lab.deliver()
    assert len(server.requests) == 1
    assert [line["attemptsMade"] for line in lab.errors("http-endpoint-failed")] == [1]


def test_a_kill_between_tries_keeps_the_request_id_and_the_clock(tmp_path: Path, server: Endpoint):
    server.usual = unauthorized
    lab = http(tmp_path, server)
    lab.put(b"one")
    lab.deliver()
    for _ in range(20):
        wait_s = lab.settle()
        if lab.is_drained:
            break
        lab.clock.advance(wait_s)
        lab.start()
    assert lab.is_drained  # a clock that began anew at each start would never end
    assert len(server.requests) > 5
    assert len({r.headers["x-amz-firehose-request-id"] for r in server.requests}) == 1
    assert len(lab.errors("http-endpoint-failed")) == 1


def test_what_an_endpoint_finds_too_large_is_lost_and_logged(tmp_path: Path, server: Endpoint):
    server.behaviours = [lambda _: answer(413, "Payload too large")]
    lab = http(tmp_path, server)
    lab.put(b"one")
    lab.deliver()
    assert lab.is_drained
    assert len(server.requests) == 1
    assert lab.objects.objects == {}
    assert lab.codes == ["HttpEndpoint.DestinationException"]


def test_all_data_is_backed_up_whether_delivered_or_not(tmp_path: Path, server: Endpoint):
    server.behaviours = [unauthorized]
    lab = http(tmp_path, server, retry_s=0, S3BackupMode="AllData")
    lab.put(b"one", b"two")
    lab.deliver()
    kept = [body for key, body in lab.objects.objects.items() if key.startswith("lake/p/")]
    assert kept == [b"onetwo"]
    assert len(lab.errors("http-endpoint-failed")) == 2


def test_the_key_of_the_secrets_manager(tmp_path: Path, server: Endpoint):
    manager = {"Enabled": True, "SecretARN": SECRET, "RoleARN": "arn:aws:iam::000000000000:role/r"}
    endpoint_ = {"Url": server.url}
    lab = http(
        tmp_path, server, EndpointConfiguration=endpoint_, SecretsManagerConfiguration=manager
    )
    lab.put(b"one")
    lab.deliver()
    assert server.requests == []
    assert lab.codes == ["HttpEndpoint.SecretsManagerFailure"]
    lab.secrets[SECRET] = json.dumps({"api_key": "from the manager"})
    lab.settle_until(lambda: lab.is_drained)
    assert server.requests[0].headers["x-amz-firehose-access-key"] == "from the manager"


def test_a_function_comes_before_the_endpoint(tmp_path: Path, server: Endpoint):
    arn = "arn:aws:lambda:us-east-1:000000000000:function:f"
    lab = http(tmp_path, server, ProcessingConfiguration=processing("Lambda", LambdaArn=arn))

    def drop_the_second(event: dict[str, Any]) -> dict[str, Any]:
        return {
            "records": [
                {
                    "recordId": record["recordId"],
                    "result": "Dropped" if place else "Ok",
                    "data": "WA==",
                }
                for place, record in enumerate(event["records"])
            ]
        }

    lab.functions.functions[arn] = drop_the_second
    lab.put(b"one", b"two")
    lab.deliver()
    lab.settle_until(lambda: lab.is_drained)
    assert [r["data"] for request in server.requests for r in request.json["records"]] == ["WA=="]


# --- Splunk -----------------------------------------------------------------------------------


def to_splunk(tmp_path: Path, splunk: Hec, *, retry_s: int = 300, **given: Any) -> DestinationLab:
    given = {
        "HECEndpoint": splunk.url,
        "HECEndpointType": "Raw",
        "HECToken": TOKEN,
        "RetryOptions": {"DurationInSeconds": retry_s},
        **given,
    }
    return DestinationLab(tmp_path, "Splunk", **given)


def test_splunk_takes_a_buffer_in_one_request(tmp_path: Path, splunk: Hec):
    lab = to_splunk(tmp_path, splunk, HECEndpointType="Event")
    lab.put(b'{"event":1}', b'{"event":2}')
    lab.deliver()
    assert splunk.taken == [("/services/collector/event", b'{"event":1}{"event":2}')]
    assert lab.is_drained


def test_splunk_is_tried_again_until_the_retry_duration_is_over(tmp_path: Path, splunk: Hec):
    splunk.refusals = [lambda _: says(503, 9, "Server is busy")] * 100
    lab = to_splunk(tmp_path, splunk, S3BackupMode="AllEvents")
    lab.put(b"one")
    lab.deliver()
    assert lab.settle_until(lambda: lab.is_drained) >= 300
    (line,) = lab.errors("splunk-failed")
    assert line["errorCode"] == "Splunk.ServerError"
    assert line["EventId"] == f"{lab.number(0)}.0"
    assert line["attemptsMade"] > 5
    assert b"one" in [body for key, body in lab.objects.objects.items() if "/p/" in key]


def test_an_acknowledgement_that_is_late_leads_to_a_second_try(tmp_path: Path, splunk: Hec):
    splunk.polls_needed = -1
    lab = to_splunk(tmp_path, splunk, retry_s=0)
    lab.put(b"one")
    lab.deliver()
    (line,) = lab.errors("splunk-failed")
    assert line["errorCode"] == "Splunk.AckTimeout"
    lab.stream.destination["RetryOptions"] = {"DurationInSeconds": 300}
    lab.put(b"two")
    lab.settle()
    lab.clock.advance(60)
    lab.delivery.step()
    splunk.polls_needed = 1
    lab.settle_until(lambda: lab.is_drained)
    assert [data for _, data in splunk.taken] == [b"one", b"two", b"two"]


# --- configurations ---------------------------------------------------------------------------

COMMON: dict[str, Any] = {"S3Configuration": S3}
HTTP: dict[str, Any] = {"EndpointConfiguration": {"Url": "https://x/", "AccessKey": "k"}, **COMMON}
SPLUNK: dict[str, Any] = {
    "HECEndpoint": "https://x", "HECEndpointType": "Raw", "HECToken": "t", **COMMON,
}  # fmt: skip
SEARCH: dict[str, Any] = {"IndexName": "f", "DomainARN": DOMAIN, **COMMON}


def test_defaults():
    made = DESTINATIONS["HttpEndpoint"].check(HTTP)
    assert made["BufferingHints"] == {"SizeInMBs": 5, "IntervalInSeconds": 300}
    assert made["RetryOptions"] == {"DurationInSeconds": 300}
    assert made["S3BackupMode"] == "FailedDataOnly"
    assert made["RequestConfiguration"] == {"ContentEncoding": "NONE"}
    assert made["S3Configuration"]["CompressionFormat"] == "UNCOMPRESSED"
    made = DESTINATIONS["Splunk"].check(SPLUNK)
    assert made["BufferingHints"] == {"SizeInMBs": 5, "IntervalInSeconds": 60}
    assert made["HECAcknowledgmentTimeoutInSeconds"] == 180
    made = DESTINATIONS["Elasticsearch"].check(SEARCH)
    assert made["IndexRotationPeriod"] == "OneDay"
    assert made["DocumentIdOptions"] == {"DefaultDocumentIdFormat": "FIREHOSE_DEFAULT"}


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("HttpEndpoint", {**HTTP, "EndpointConfiguration": {"Url": "https:///x"}}),
        ("HttpEndpoint", {**HTTP, "BufferingHints": {"SizeInMBs": 65, "IntervalInSeconds": 60}}),
        ("HttpEndpoint", {**HTTP, "S3Configuration": {**S3, "BucketARN": "lake"}}),
        ("HttpEndpoint", {**HTTP, "CloudWatchLoggingOptions": {"Enabled": True}}),
        ("HttpEndpoint", {**HTTP, "SecretsManagerConfiguration": {"Enabled": True}}),
        ("Splunk", {**SPLUNK, "HECToken": ""}),
        ("Splunk", {**SPLUNK, "HECEndpoint": "x"}),
        ("Splunk", {**SPLUNK, "BufferingHints": {"SizeInMBs": 6, "IntervalInSeconds": 60}}),
        ("Splunk", {**SPLUNK, "BufferingHints": {"SizeInMBs": 5, "IntervalInSeconds": 61}}),
        ("Elasticsearch", {**SEARCH, "ClusterEndpoint": "https://x"}),
        ("Amazonopensearchservice", {"IndexName": "f", **COMMON}),
        ("AmazonOpenSearchServerless", {"IndexName": "f", **COMMON}),
    ],
)
def test_what_is_refused(kind: str, given: dict[str, Any]):
    with pytest.raises(AwsError) as caught:
        DESTINATIONS[kind].check(given)
    assert caught.value.code == "InvalidArgumentException"


def test_updates_keep_what_they_do_not_name_and_descriptions_hide_the_key():
    kind = DESTINATIONS["HttpEndpoint"]
    update = {"EndpointConfiguration": {"Url": "https://y/"}, "S3Update": {"Prefix": "q/"}}
    made = kind.update(kind.check(HTTP), update)
    assert made["EndpointConfiguration"] == {"Url": "https://y/", "AccessKey": "k"}
    assert made["S3Configuration"]["Prefix"] == "q/"
    assert made["S3Configuration"]["BucketARN"] == S3["BucketARN"]
    shown = kind.describe(made)["HttpEndpointDestinationDescription"]
    assert shown["EndpointConfiguration"] == {"Url": "https://y/"}
    assert shown["S3DestinationDescription"]["Prefix"] == "q/"
    search_ = DESTINATIONS["Elasticsearch"]
    made = search_.update(search_.check(SEARCH), {"ClusterEndpoint": "https://x"})
    assert "DomainARN" not in made


def test_a_backup_of_all_events_cannot_be_ended():
    kind = DESTINATIONS["Splunk"]
    made = kind.check({**SPLUNK, "S3BackupMode": "AllEvents"})
    with pytest.raises(AwsError):
        kind.update(made, {"S3BackupMode": "FailedEventsOnly"})
