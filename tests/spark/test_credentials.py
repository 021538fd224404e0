"""Credentials that are revoked or expire while a query runs: a clear end, and exactly once from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.faults import Faults
from headrace.spark.client import KinesisClient, KinesisError
from headrace.spark.offsets import TrimHorizon
from headrace.spark.options import parse_options
from tests.spark.conftest import Stream
from tests.spark.test_source import drain, numbers, stream_of
from tests.support.server import ServerProcess, wait_until

pytestmark = pytest.mark.spark

EXPIRED = "ExpiredTokenException"


@pytest.fixture
def faults(server: ServerProcess) -> Iterator[Faults]:
    with Faults(server.endpoint_url) as faults:
        yield faults


def refuse(faults: Faults, stream: Stream, code: str, action: str, count: int | None = None) -> Any:
    sentence = "The security token included in the request is not what it was"
    return faults.add(
        "error", service="kinesis", action=action, stream=stream.name,
        error_code=code, error_message=sentence, count=count,
    )  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "AccessDeniedException",
        pytest.param("UnrecognizedClientException", marks=pytest.mark.slow),
        pytest.param("ExpiredTokenException", marks=pytest.mark.slow),
    ],
)
def test_a_query_whose_credentials_are_revoked_ends_and_goes_on_exactly_once(
    spark: Any, make_stream: Any, places: tuple[str, str], faults: Faults, code: str
) -> None:
    stream = make_stream(2)
    stream.put(300)
    out, checkpoint = places
    query = (
        stream_of(spark, stream, maxRecordsPerTrigger="100")
        .writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="100 milliseconds")
        .start(out)
    )
    try:
        wait_until(lambda: Path(checkpoint, "commits", "0").exists(), within_s=60)
        rule = refuse(faults, stream, code, "GetRecords")
        stream.put(300)
        with pytest.raises(
            Exception, match=rf"{code}: The security token .*\(stream {stream.name}"
        ):
            query.awaitTermination(60)
    finally:
        query.stop()
    faults.remove(rule["id"])
    stream.put(100)
    drain(stream_of(spark, stream), places)
    assert numbers(spark, out) == list(range(700))


@pytest.fixture
def client(make_stream: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[KinesisClient]:
    stream = make_stream(1)
    stream.put(3)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAFIRST")
    client = KinesisClient(parse_options(stream.options()))
    client.stream = stream  # type: ignore[attr-defined]
    yield client
    client.close()


def rows(client: KinesisClient) -> int:
    (shard,) = client.shards()
    return client.records(client.iterator(shard.shard_id, None, TrimHorizon()), 10).rows


@pytest.mark.parametrize("action", ["GetRecords", "ListShards", "GetShardIterator"])
def test_expired_credentials_are_searched_for_once_more(
    client: Any, faults: Faults, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    refuse(faults, client.stream, EXPIRED, action, count=1)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASECOND")
    assert rows(client) == 3
    signed = client._sign("GetRecords", b"{}", client._credentials)
    assert "Credential=AKIASECOND/" in str(signed.headers["Authorization"])
    assert client._client._get_credentials().access_key == "AKIASECOND"


@pytest.mark.parametrize("action", ["GetRecords", "ListShards"])
def test_credentials_that_stay_expired_fail_the_call_after_two_refusals(
    client: Any, faults: Faults, action: str
) -> None:
    rule = refuse(faults, client.stream, EXPIRED, action)
    with pytest.raises(KinesisError, match=rf"{EXPIRED}: .*\(stream {client.stream.name}"):
        rows(client)
    (rule,) = [one for one in faults.list() if one["id"] == rule["id"]]
    assert rule["acted"] == 2


def test_a_refusal_for_good_is_not_asked_again(client: Any, faults: Faults) -> None:
    rule = refuse(faults, client.stream, "AccessDeniedException", "GetRecords")
    with pytest.raises(KinesisError, match="AccessDeniedException"):
        rows(client)
    (rule,) = [one for one in faults.list() if one["id"] == rule["id"]]
    assert rule["acted"] == 1


def test_a_role_is_assumed_anew_when_its_session_has_expired(
    server: ServerProcess, make_stream: Any, faults: Faults
) -> None:
    stream = make_stream(1)
    stream.put(3)
    role = "arn:aws:iam::000000000000:role/reader"
    client = KinesisClient(
        parse_options(stream.options(stsRoleArn=role, stsEndpointUrl=server.endpoint_url))
    )
    try:
        assert rows(client) == 3
        first = client._credentials.get_frozen_credentials().access_key
        refuse(faults, stream, EXPIRED, "GetRecords", count=1)
        assert rows(client) == 3
        second = client._credentials.get_frozen_credentials().access_key
    finally:
        client.close()
    assert first.startswith("ASIA")
    assert second.startswith("ASIA")
    assert first != second


def test_a_task_that_writes_looks_for_credentials_once_more(
    spark: Any, make_stream: Any, faults: Faults
) -> None:
    stream = make_stream(1)
    options = stream.options()
    del options["kinesis.startingposition"]
    frame = spark.range(10).selectExpr("cast(id as string) data", "'k' partitionKey").coalesce(1)
    refuse(faults, stream, EXPIRED, "PutRecords", count=1)
    frame.write.format("kinesis").options(**options).mode("append").save()
    refuse(faults, stream, "AccessDeniedException", "PutRecords")
    with pytest.raises(Exception, match=rf"AccessDeniedException: .*\(stream {stream.name}"):
        frame.write.format("kinesis").options(**options).mode("append").save()
    found = spark.read.format("kinesis").options(**stream.options()).load()
    assert sorted(int(bytes(row.data)) for row in found.collect()) == list(range(10))
