"""Buckets: what a second gives, what is saved, and what becomes of the large."""

from __future__ import annotations

import re

import pytest
from botocore.loaders import Loader
from hypothesis import given
from hypothesis import strategies as st

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call
from headrace.services.kinesis.permits import MOST_BUCKETS, RATES, Rate, Throttle, TokenBucket

NOW_MS = 1_700_000_000_000


def test_a_bucket_gives_what_a_second_gives_and_saves_no_more() -> None:
    bucket = TokenBucket(10, NOW_MS)
    later_ms = NOW_MS + 60_000
    for _ in range(10):
        assert bucket.has(1, later_ms)
        bucket.take(1)
    assert not bucket.has(1, later_ms + 99)
    assert bucket.has(1, later_ms + 100)


def test_what_is_larger_than_a_second_gives_passes_a_full_bucket_and_leaves_a_debt() -> None:
    bucket = TokenBucket(10, NOW_MS)
    assert bucket.has(35, NOW_MS)
    bucket.take(35)
    assert not bucket.has(1, NOW_MS + 2500)
    assert bucket.has(1, NOW_MS + 2600)
    assert not bucket.has(35, NOW_MS + 3400)


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(10, NOW_MS)
    bucket.take(10)
    assert not bucket.has(1, NOW_MS - 5000)
    assert not bucket.has(1, NOW_MS + 50)
    assert bucket.has(1, NOW_MS + 100)


def test_a_hundred_thousand_callers_are_not_kept_for_ever() -> None:
    throttle = Throttle()
    for i in range(MOST_BUCKETS * 2):
        call = Call(f"{i:012}", "us-east-1", "r", NOW_MS + i)
        throttle.check_call("ListStreams", {}, call)
    assert len(throttle._calls) <= MOST_BUCKETS


def test_a_consumers_rate_is_of_its_shard() -> None:
    throttle = Throttle()
    call = Call("0" * 12, "us-east-1", "r", NOW_MS)
    arn = "arn:aws:kinesis:us-east-1:000000000000:stream/flights/consumer/a:1"
    throttle.check_call("SubscribeToShard", {"ConsumerARN": arn, "ShardId": "0"}, call)
    throttle.check_call("SubscribeToShard", {"ConsumerARN": arn, "ShardId": "1"}, call)
    with pytest.raises(AwsError) as caught:
        throttle.check_call(
            "SubscribeToShard", {"ConsumerARN": arn, "ShardId": "shardId-000000000000"}, call
        )
    assert caught.value.code == "LimitExceededException"
    assert caught.value.message == "Rate exceeded for stream flights under account 000000000000."


def documented_rates() -> dict[str, Rate]:
    """Return the rates that AWS's descriptions of the operations say."""
    words = {"one": 1, "five": 5}
    found: dict[str, Rate] = {}
    # headrace's own loader leaves the descriptions out.
    operations = Loader().load_service_model("kinesis", "service-2")["operations"]
    for name, described in operations.items():
        text = re.sub("<[^>]+>", "", described["documentation"])
        said = re.search(
            r"limit of (\w+)\s+transactions? per second (?:\(TPS\) )?(?:per|for each)\s+([\w ]+)",
            text,
        )
        if said and name in RATES:
            count, of = said.groups()
            calls = words.get(count) or int(count)
            per = "shard" if "shard" in of else "stream" if "stream" in of else "account"
            found[name] = Rate(calls, per)
    return found


def test_rates_are_those_that_aws_documents() -> None:
    documented = documented_rates()
    assert len(documented) >= 19
    assert {name: RATES[name] for name in documented} == documented


@given(st.lists(st.tuples(st.integers(0, 700), st.integers(1, 40)), max_size=60))
def test_no_more_passes_than_time_gives_and_a_second_saved(asked: list[tuple[int, int]]) -> None:
    bucket, now_ms, passed = TokenBucket(20, NOW_MS), NOW_MS, 0
    for wait_ms, amount in asked:
        now_ms += wait_ms
        if bucket.has(amount, now_ms):
            bucket.take(amount)
            passed += amount
        given_by_now = 20 + (now_ms - NOW_MS) * 20 / 1000
        # The last that passed may be larger than a full bucket: its debt is paid before the next.
        assert passed <= given_by_now + 20 + 1e-6
