"""Which bucket a host names."""

from __future__ import annotations

import pytest

from headrace.aws.calls.http import HttpRequest
from headrace.services.s3.routing import parse_target


@pytest.mark.parametrize(
    ("host", "bucket"),
    [
        ("b.s3.amazonaws.com", "b"),
        ("b.s3.eu-west-1.amazonaws.com", "b"),
        ("b.s3-eu-west-1.amazonaws.com", "b"),
        ("my.dotted.s3.dualstack.us-east-1.amazonaws.com:443", "my.dotted"),
        ("s3.us-east-1.amazonaws.com", ""),
        ("b.localhost:4566", "b"),
        ("b.s3.localhost.localstack.cloud", "b"),
        ("127.0.0.1:4566", ""),
        ("s3" + "-" * 200 + "x!.amazonaws", ""),
        ("b." * 200 + "s3.amazonaws.com", ""),  # longer than a name on the network can be
    ],
)
def test_the_bucket_of_a_host(host: str, bucket: str):
    found = parse_target(HttpRequest("GET", "/key" if bucket else "/", "", {"host": host}, b""))
    assert (found.bucket, found.key) == (bucket, "key" if bucket else "")
