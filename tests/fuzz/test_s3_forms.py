"""Browsers' forms and requests to websites, mutated: never a 500. Three hundred here, 10,000 with `--nightly`."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from urllib3.filepost import encode_multipart_formdata

from headrace.aws.calls.http import HttpRequest
from tests.api.s3.helpers import S3Lab
from tests.fuzz.requests import ODD, ODD_TEXTS
from tests.support.clock import FakeClock

REQUESTS = 300
NIGHTLY_REQUESTS = 10_000
NAMES = (
    "acl",
    "tagging",
    "x-amz-meta-a",
    "x-amz-storage-class",
    "success_action_redirect",
    "Expires",
)
TEXTS = (*ODD_TEXTS, "201", "http://x.test/?a", "http://[", "<Tagging/>", "private", "STANDARD_IA")
PATHS = ("/", "/docs/", "/docs", "/%00", "/..", "/no", "/%F0%9F", "/" + "a" * 1100, "//", "/%ff")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Lab]:
    lab = S3Lab(tmp_path_factory.mktemp("fuzz"), FakeClock())
    lab.client().create_bucket(Bucket="bucket-one")
    yield lab
    lab.stop()


def policy(random: Random) -> str:
    condition = random.choice(
        (["eq", "$key", "k"], {"key": "k"}, ["content-length-range", 0, 9], *ODD, ["eq", 1, None])
    )
    value: Any = {
        "expiration": random.choice(("2099-01-01T00:00:00Z", "", 5, "2099-13-01")),
        "conditions": random.choice(([condition], condition)),
    }
    return base64.b64encode(json.dumps(value).encode("utf-8", "surrogatepass")).decode()


def form(random: Random) -> tuple[bytes, str]:
    fields: dict[str, Any] = {"key": random.choice(("k", "a/${filename}", *TEXTS))}
    for name in NAMES:
        if random.random() < 0.3:
            fields[name] = random.choice(TEXTS).encode("utf-8", "replace").decode()
    if random.random() < 0.5:
        fields |= {"policy": policy(random), "AWSAccessKeyId": "a", "signature": "b"}
    if random.random() < 0.9:
        fields["file"] = ("n", random.randbytes(random.randrange(20)))
    fields["key"] = fields["key"].encode("utf-8", "replace").decode()
    body, kind = encode_multipart_formdata(fields)
    if random.random() < 0.3:
        at = random.randrange(len(body))
        body = random.choice((body[:at], body[:at] + random.randbytes(2) + body[at + 1 :]))
    return body, kind


def test_no_form_breaks_an_upload(lab: S3Lab, how_many: Callable[[int, int], int], seed: int):
    random = Random(f"forms-{seed}")
    statuses: list[int] = []
    for number in range(how_many(REQUESTS, NIGHTLY_REQUESTS)):
        body, kind = form(random)
        headers = {"content-type": kind, "host": "localhost:4566"}
        answer = lab.handle(HttpRequest("POST", "/bucket-one", "", headers, body))
        assert answer.status < 500, (number, body, answer.body)
        statuses.append(answer.status)
    assert statuses.count(204) > len(statuses) // 20
    assert list(lab.s3.files.temporary().parent.iterdir()) == []


def test_no_request_breaks_a_website(lab: S3Lab):
    client = lab.client()
    random = Random("websites")
    client.put_object(Bucket="bucket-one", Key="docs/index.html", Body=b"docs")
    redirects: list[dict[str, str]] = [
        {"ReplaceKeyWith": "é"},
        {"ReplaceKeyPrefixWith": "x y"},
        {"HostName": "x.test", "HttpRedirectCode": "307"},
    ]
    for _ in range(100):
        rule = {"Condition": {"KeyPrefixEquals": random.choice(("no", "docs"))}}
        site = {
            "IndexDocument": {"Suffix": "index.html"},
            "ErrorDocument": {"Key": random.choice(("error.html", "docs/index.html"))},
            "RoutingRules": [{**rule, "Redirect": random.choice(redirects)}],
        }
        client.put_bucket_website(Bucket="bucket-one", WebsiteConfiguration=site)
        headers = {"host": "bucket-one.s3-website.localhost:4566"}
        if random.random() < 0.5:
            headers["range"] = random.choice(("bytes=0-1", "bytes=99-", "x"))
        method = random.choice(("GET", "HEAD", "PUT", "OPTIONS"))
        path = random.choice(PATHS)
        answer = lab.handle(HttpRequest(method, path, "", headers, b""))
        assert answer.status < 500, (method, path, site)
