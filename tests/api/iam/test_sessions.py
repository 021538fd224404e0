"""Sessions of roles: they end, they outlast the cloud's process, and nobody else's keys are taken for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.testing.clock import MovableClock
from tests.support.clients import client_of
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.iam import allow, as_role, make_role, refusal


def test_a_session_ends_when_its_time_is_over(tmp_path: Path):
    clock = MovableClock()
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        make_role(cloud, "short", allow("kinesis:ListStreams", "*"))
        kinesis, s3, sqs = (as_role(cloud, "short", name) for name in ("kinesis", "s3", "sqs"))
        assert kinesis.list_streams()["StreamNames"] == []
        clock.advance(3600)
        expired = "The security token included in the request is expired"
        assert refusal(kinesis.list_streams) == ("ExpiredTokenException", 400, expired)
        assert refusal(sqs.list_queues)[0] in ("ExpiredToken", "ExpiredTokenException")
        assert refusal(s3.list_buckets) == ("ExpiredToken", 400, "The provided token has expired.")


def test_a_session_is_itself_after_a_restart_and_no_token_is_anothers(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        make_role(cloud, "lasting", allow("kinesis:ListStreams", "*"))
        arn = f"arn:aws:iam::{ACCOUNT}:role/lasting"
        assume = cloud.client("sts").assume_role
        one, two = (assume(RoleArn=arn, RoleSessionName=n)["Credentials"] for n in ("s1", "s2"))
    with InProcessCloud(tmp_path / "data") as cloud:

        def sts(key: str, token: str) -> Any:
            return client_of("sts", cloud.handle, account=key, region=REGION, token=token)

        found = sts(one["AccessKeyId"], one["SessionToken"]).get_caller_identity()["Arn"]
        assert found == f"arn:aws:sts::{ACCOUNT}:assumed-role/lasting/s1"
        mixed = sts(one["AccessKeyId"], two["SessionToken"])
        assert refusal(mixed.get_caller_identity) == (
            "InvalidClientTokenId",
            403,
            "The security token included in the request is invalid.",
        )


@pytest.mark.parametrize("key", ["AKIAIOSFODNN7EXAMPLE", "test", "123456789012"])
def test_keys_that_nobody_made_are_the_accounts_own(tmp_path: Path, key: str):
    with InProcessCloud(tmp_path / "data", iam="enforce") as cloud:
        kinesis = client_of("kinesis", cloud.handle, account=key, region=REGION)
        assert kinesis.list_streams()["StreamNames"] == []
