"""Kill -9 a cloud while Firehose delivers to S3, OpenSearch, an HTTP endpoint and Splunk: nothing is lost.

S3 and OpenSearch have each record once. An endpoint has requests more than once, with the same id and the same
records; a collector has data more than once, and knows no ids.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.endpoint import Endpoint, Request, endpoint, json_answer
from tests.support.hec import TOKEN, Hec, hec
from tests.support.server import ServerProcess, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.slow]

ROLE = "arn:aws:iam::000000000000:role/r"
NOW = {"SizeInMBs": 1, "IntervalInSeconds": 0}
S3 = {"RoleARN": ROLE, "BucketARN": "arn:aws:s3:::lake", "Prefix": "bad/"}
NAMES = ("s3", "search", "http", "splunk")
KILLS = 8
BATCH = 50


def sound(request: Request) -> bytes:
    return json_answer(200, {"requestId": request.json["requestId"], "timestamp": 1})


def make(server: ServerProcess, http: Endpoint, collector: Hec) -> None:
    server.client("s3").create_bucket(Bucket="lake")
    search = server.client("opensearch")
    search.create_domain(DomainName="flights")
    domain = search.describe_domain(DomainName="flights")["DomainStatus"]["ARN"]
    destinations: dict[str, dict[str, Any]] = {
        "s3": {
            "ExtendedS3DestinationConfiguration": {
                **S3,
                "Prefix": "good/",
                "CompressionFormat": "GZIP",
                "BufferingHints": NOW,
            }
        },
        "search": {
            "AmazonopensearchserviceDestinationConfiguration": {
                "RoleARN": ROLE,
                "DomainARN": domain,
                "IndexName": "i",
                "IndexRotationPeriod": "NoRotation",
                "BufferingHints": NOW,
                "S3Configuration": S3,
            }
        },
        "http": {
            "HttpEndpointDestinationConfiguration": {
                "EndpointConfiguration": {"Url": http.url},
                "BufferingHints": NOW,
                "RetryOptions": {"DurationInSeconds": 300},
                "S3Configuration": S3,
            }
        },
        "splunk": {
            "SplunkDestinationConfiguration": {
                "HECEndpoint": collector.url,
                "HECEndpointType": "Raw",
                "HECToken": TOKEN,
                "BufferingHints": NOW,
                "RetryOptions": {"DurationInSeconds": 300},
                "S3Configuration": S3,
            }
        },
    }
    for name, destination in destinations.items():
        server.client("firehose").create_delivery_stream(DeliveryStreamName=name, **destination)


@pytest.mark.parametrize("seed", range(2))
def test_every_record_arrives_over_kills(tmp_path: Path, seed: int):
    dice, put = random.Random(seed), 0
    with endpoint(sound) as http, hec() as collector, ServerProcess(tmp_path / "data") as server:
        make(server, http, collector)
        for _ in range(KILLS):
            firehose = server.client("firehose")
            for _ in range(3):
                records = [
                    {"Data": json.dumps({"n": n}).encode() + b"\n"} for n in range(put, put + BATCH)
                ]
                for name in NAMES:
                    answer = firehose.put_record_batch(DeliveryStreamName=name, Records=records)
                    assert answer["FailedPutCount"] == 0
                put += BATCH
            time.sleep(dice.uniform(0, 0.3))  # the kill falls before, in or after the deliveries
            server.kill9()
            server.start()
        wait_until(
            lambda: all(one["is_drained"] for one in server.page("/_headrace/firehose")),
            within_s=120,
            what="the delivery",
        )
        assert objects(server) == list(range(put))
        assert documents(server) == list(range(put))
        check_requests(http.requests, put)
        lines = b"".join(body for _, body in collector.taken).splitlines()
        assert set(numbers(lines)) == set(range(put))
        assert "Contents" not in server.client("s3").list_objects_v2(Bucket="lake", Prefix="bad/")


def numbers(lines: Iterable[bytes]) -> list[int]:
    return [json.loads(line)["n"] for line in lines]


def objects(server: ServerProcess) -> list[int]:
    s3, found = server.client("s3"), list[int]()
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix="good/"):
        for item in page.get("Contents", []):
            body = s3.get_object(Bucket="lake", Key=item["Key"])["Body"].read()
            found += numbers(gzip.decompress(body).splitlines())
    return sorted(found)


def documents(server: ServerProcess) -> list[int]:
    at = "/_headrace/opensearch/000000000000/us-east-1/flights/i/_search?size=10000"
    return sorted(hit["_source"]["n"] for hit in server.page(at)["hits"]["hits"])


def check_requests(requests: list[Request], put: int) -> None:
    """Each request id has one set of records, and all together have each record once."""
    by_id: dict[str, list[int]] = {}
    for request in requests:
        lines = [base64.b64decode(record["data"]) for record in request.json["records"]]
        found = numbers(lines)
        assert by_id.setdefault(request.json["requestId"], found) == found
    assert sorted(n for found in by_id.values() for n in found) == list(range(put))
