"""Faults on a real socket: by the command, by the Python object, and as clients feel them."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError
from click.testing import CliRunner

from headrace.cli.commands import headrace
from headrace.client.faults import FaultError, Faults
from headrace.core.clock import SystemClock
from tests.api.kinesis.live import LiveCloud
from tests.api.kinesis.streams import failure


@pytest.fixture
def live(data_dir: Path) -> Iterator[LiveCloud]:
    with LiveCloud(data_dir) as running:
        running.client().create_stream(StreamName="flights", ShardCount=1)
        yield running


@pytest.fixture
def url(live: LiveCloud) -> str:
    return f"http://127.0.0.1:{live.port}"


def put(client: Any) -> Any:
    return client.put_record(StreamName="flights", Data=b"x", PartitionKey="k")


def texts(client: Any) -> list[bytes]:
    iterator = client.get_shard_iterator(
        StreamName="flights", ShardId="0", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    return [record["Data"] for record in client.get_records(ShardIterator=iterator)["Records"]]


def test_an_object_adds_faults_and_takes_its_own_away(live: LiveCloud, url: str) -> None:
    others, client = Faults(url), live.client()
    others.add("latency", latency_ms=1, service="s3")
    with Faults(url) as faults:
        added = faults.add("throttle", service="kinesis", action="PutRecord", seed=1)
        assert failure(put, client=client).code == "ProvisionedThroughputExceededException"
        assert [rule["acted"] for rule in faults.list() if rule["id"] == added["id"]] == [1]
    put(client)
    assert [rule["fault"] for rule in others.list()] == ["latency"]
    assert others.clear() == 1


def test_the_object_says_what_is_wrong(url: str) -> None:
    faults = Faults(url)
    with pytest.raises(FaultError, match=r"^The member 'probability' must be above 0"):
        faults.add("drop", probability=0)
    with pytest.raises(FaultError, match=r"^There is no stream 'nope', there are flights; "):
        faults.add("drop", stream="nope")
    faults.remove(faults.add("drop", stream="nope", even_if_missing=True)["id"])
    with pytest.raises(FaultError, match=r"^There is no fault 'none'.$"):
        faults.remove("none")
    with pytest.raises(FaultError, match=r"^No cloud answers at http://127.0.0.1:1/"):
        Faults("http://127.0.0.1:1").list()


def test_a_client_feels_a_dropped_connection(live: LiveCloud, url: str) -> None:
    client = live.client()
    with Faults(url) as faults:
        faults.add("drop", service="kinesis", action="PutRecord", count=1)
        with pytest.raises(ConnectionClosedError):
            put(client)
        assert texts(client) == []
        faults.add("drop", service="kinesis", action="PutRecord", when="after", count=1)
        with pytest.raises(ConnectionClosedError):
            put(client)
        assert texts(client) == [b"x"]
    put(client)


class HeldLatency(SystemClock):
    """A clock on which a latency of twelve seconds lasts until it is let go."""

    def __init__(self) -> None:
        self.begun, self.over = threading.Event(), threading.Event()

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        if timeout_s != 12:
            return super().wait(event, timeout_s)
        self.begun.set()
        return self.over.wait(30)


def test_latency_of_one_request_does_not_hold_another(data_dir: Path) -> None:
    clock = HeldLatency()
    with LiveCloud(data_dir, clock=clock) as live, ThreadPoolExecutor(1) as thread:
        live.client().create_stream(StreamName="flights", ShardCount=1)
        url = f"http://127.0.0.1:{live.port}"
        with Faults(url) as faults:
            faults.add("latency", service="kinesis", action="PutRecord", latency_ms=12_000)
            slow = thread.submit(put, live.client())
            assert clock.begun.wait(10)
            live.client().list_streams()
            with urllib.request.urlopen(f"{url}/_headrace/health", timeout=10) as page:
                assert page.status == 200
            assert not slow.done()
            clock.over.set()
            assert slow.result(10)["ShardId"] == "shardId-000000000000"


def test_the_command_adds_lists_and_clears(live: LiveCloud, url: str) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(headrace, ["faults", *arguments, "--endpoint-url", url])
        return result.exit_code, result.output

    assert run("list") == (0, "There are no faults.\n")
    code, rule_id = run(
        "add", "throttle", "--service", "kinesis", "--action", "PutRecord", "--count", "1"
    )
    assert code == 0
    _, listed = run("list")
    assert rule_id.strip() in listed
    assert "kinesis PutRecord" in listed
    assert "count=1" in listed
    assert failure(put, client=live.client()).status == 400
    assert run("clear", rule_id.strip()) == (0, "")
    run("add", "drop", "--when", "after")
    assert run("clear") == (0, "1 removed\n")
    code, said = run("add", "latency")
    assert (code, said) == (
        1,
        "Error: A latency fault has --latency-ms, and no other fault has it.\n",
    )
    code, said = run("add", "drop", "--stream", "flihgts")
    assert (code, said) == (
        1,
        (
            "Error: There is no stream 'flihgts', there are flights; for one that is yet to be made, "
            "set --even-if-missing.\n"
        ),
    )
    assert run("add", "drop", "--stream", "flihgts", "--even-if-missing")[0] == 0
    assert run("clear") == (0, "1 removed\n")
    code, said = run("clear", "none")
    assert (code, said) == (1, "Error: There is no fault 'none'.\n")
