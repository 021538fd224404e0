"""Credentials and roles of the calls to Kinesis."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.client import KinesisClient, KinesisError
from headrace.spark.offsets import AtTimestamp, TrimHorizon
from headrace.spark.options import parse_options
from headrace.spark.untyped import pa
from tests.spark.conftest import Stream
from tests.support.server import ServerProcess, wait_until


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("no_credentials")
def test_without_credentials_the_error_says_so() -> None:
    options = parse_options({"kinesis.streamName": "s", "kinesis.region": "us-east-1"})
    with pytest.raises(KinesisError, match="no AWS credentials"):
        KinesisClient(options)


@pytest.mark.spark
def test_a_role_is_assumed_for_every_call(
    server: ServerProcess, make_stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make_stream(1)
    stream.put(3)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint_url)
    role = "arn:aws:iam::000000000000:role/reader"
    client = KinesisClient(parse_options(stream.options(stsRoleArn=role)))
    try:
        (shard,) = client.shards()
        page = client.records(client.iterator(shard.shard_id, None, TrimHorizon()), 10)
        assert page.rows == 3
        signed: Any = client._sign("GetRecords", b"{}", client._credentials)
    finally:
        client.close()
    assert "Credential=ASIA" in str(signed.headers["Authorization"])


@pytest.mark.spark
def test_a_position_in_time_is_exact_to_the_millisecond(make_stream: Any) -> None:
    # boto3 cuts it to the second before up to 1.42, which Python 3.9 (EMR 7) has last.
    stream = make_stream(1)
    client = KinesisClient(parse_options(stream.options()))
    try:
        (shard,) = client.shards()
        for _ in range(3):
            stream.put(1)
            written_ms = time.time_ns() // 1_000_000
            wait_until(lambda after_ms=written_ms: time.time_ns() // 1_000_000 > after_ms)
        records = client.records(client.iterator(shard.shard_id, None, TrimHorizon()), 10).records
        arrivals = [us // 1000 for us in records.column(3).cast(pa.int64()).to_pylist()]
        for left, arrival_ms in enumerate(arrivals):
            iterator = client.iterator(shard.shard_id, None, AtTimestamp(arrival_ms))
            assert client.records(iterator, 10).rows == 3 - left
    finally:
        client.close()


@pytest.mark.crash
def test_a_cloud_that_is_away_for_a_moment_is_called_again(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        stream = Stream(server, "s", 1)
        stream.put(3)
        client = KinesisClient(parse_options(stream.options()))
        try:
            (shard,) = client.shards()
            iterator = client.iterator(shard.shard_id, None, TrimHorizon())
            server.kill9()
            with ThreadPoolExecutor(1) as threads:
                page = threads.submit(client.records, iterator, 10)
                server.start()
                assert page.result(60).rows == 3
        finally:
            client.close()
