"""The benchmark counts right, judges right, and shows a peer's failure instead of hiding it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.benchmarks import checkouts, firehose, moto, report, slow_clients
from scripts.benchmarks.interleaved import medians_of
from scripts.benchmarks.interleaved import put_records as put_records_call
from scripts.benchmarks.kinesis import RESIDENT, WORKLOADS, measure
from scripts.benchmarks.report import Line
from scripts.benchmarks.servers import PROGRAMS, CannotStart, Running, checkout, version
from scripts.benchmarks.wire import Connection
from scripts.benchmarks.workloads import Load, drain, put_record, put_records, readers_of_one_shard
from tests.support.server import ServerProcess

ROOT = Path(__file__).parents[2]
LATENCY_OF_CEILING = report.of_the_ceiling(0.5, higher_is_better=False)
RATES = {"headrace": 100.0, "moto": 4.0, "ministack": 8.0, "kinesis-mock": 1.0}


@pytest.mark.parametrize(
    ("goal", "values", "met"),
    [
        (report.times_the_best(12), RATES, True),
        (report.times_the_best(13), RATES, False),
        (report.times_the_best(12, kinesis_mock=101), RATES, False),
        (report.times_the_best(12), {"headrace": 1.0, "headrace-fsync": 9.0}, None),
        (report.at_most(1, "ms"), {"headrace": 0.9}, True),
        (report.at_most(1, "ms"), {"headrace": 1.1}, False),
        (report.no_slower_than_any(), {"headrace": 2.0, "a": 2.0, "b": 3.0}, True),
        (report.no_slower_than_any(), {"headrace": 2.0, "a": 1.9, "b": 3.0}, False),
        (report.share_of("headrace-fsync", 0.5), {"headrace": 4.0, "headrace-fsync": 2.0}, True),
        (report.share_of("headrace-fsync", 0.5), {"headrace": 4.0}, False),
        (report.of_the_ceiling(0.6), {"headrace": 6.0, "bare": 10.0}, True),
        (report.of_the_ceiling(0.6), {"headrace": 5.9, "bare": 10.0}, False),
        (report.of_the_ceiling(0.6), {"headrace": 5.9, "moto": 1.0}, None),
        (LATENCY_OF_CEILING, {"headrace": 2.0, "bare": 1.0}, True),
        (LATENCY_OF_CEILING, {"headrace": 2.1, "bare": 1.0}, False),
        (report.all_of(report.at_most(9, "ms"), LATENCY_OF_CEILING), {"headrace": 2.0}, None),
        (report.all_of(report.at_most(1, "ms"), LATENCY_OF_CEILING), {"headrace": 2.0}, False),
    ],
)
def test_goals(goal: report.Goal, values: dict[str, float], met: bool | None):
    assert goal.is_met(values) is met


def test_a_ratio_is_against_the_best_and_above_one_in_our_favour():
    def ratio(metric: str, ours: float, theirs: list[float]) -> tuple[Any, Any]:
        figures = {"headrace": {metric: ours}}
        figures |= {f"p{i}": {metric: value} for i, value in enumerate(theirs)}
        figures["broken"] = {"error": "no"}
        outcome = report.outcome(Line("w", metric, None), {"w": figures})
        return outcome["best peer"], outcome["ratio"]

    assert ratio("records/s", 100.0, [20.0, 50.0]) == ("p1", 2.0)
    assert ratio("p50 ms", 1.0, [4.0, 8.0]) == ("p0", 4.0)
    assert ratio("MB", 100.0, []) == (None, None)


def test_the_page_has_each_work_with_the_best_peer_and_the_ceiling():
    rate = "records/s"
    lines = [Line("puts", rate, report.times_the_best(6)), Line("puts", "p99 ms", None)]
    figures = {"headrace": 100.0, "bare": 160.0, "moto": 4.0, "ministack": 50.0}
    medians = {"puts": {name: {rate: value} for name, value in figures.items()}}
    medians["puts"]["headrace"]["p99 ms"] = 0.5
    assert report.markdown(lines, medians).splitlines()[2:] == [
        f"| puts | {rate} | 100 (goal >= 6x best) | 50 ministack (2.0x) | 160 | 0.62 |",
        "|  | p99 ms | 0.50 |  |  |  |",
    ]


def test_medians_leave_failed_rounds_out():
    assert report.median_of([{"a": 1.0}, {"error": "x"}, {"a": 3.0}]) == {"a": 2.0}
    assert report.median_of([{"error": "x"}]) == {"error": "x"}
    assert report.errors({"w": {"p": {"error": "x"}}}) == ["p failed w: x"]


def test_each_workload_of_motos_services_runs(tmp_path: Path):
    with ServerProcess(tmp_path / "data") as server:
        client = moto.Client(server.port)
        client.make()
        rates = {each.name: moto.measure(client, each, 0.05)[moto.RATE] for each in moto.WORKLOADS}
        client.connection.close()
    assert min(rates.values()) > 0


def test_workloads_count_what_the_cloud_stores(tmp_path: Path):
    with ServerProcess(tmp_path / "data") as server:
        load = Load(server.port, 0.2)
        rate = put_records(load, "small", 100)["records/s"]
        assert rate > 0
        client = server.client("kinesis")
        stored = 0
        for shard in client.list_shards(StreamName="small")["Shards"]:
            iterator = client.get_shard_iterator(
                StreamName="small", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            while records := (page := client.get_records(ShardIterator=iterator))["Records"]:
                stored += len(records)
                iterator = page["NextShardIterator"]
        assert stored % 500 == 0
        assert drain(load, "small")["records/s"] > 0
        assert readers_of_one_shard(load, "small")["records/s"] > 0
        assert put_record(load, "one", 4)["p50 ms"] > 0
        with pytest.raises(RuntimeError, match="could not be put"):
            drain(load, "never made")


def test_a_peer_that_cannot_start_fails_its_workloads_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
):
    def no_start(self: Running) -> float:
        raise CannotStart("Node.js is not installed")

    monkeypatch.setattr(Running, "start", no_start)
    # The load's processor is the whole process's: given back.
    before = os.sched_getaffinity(0)
    try:
        results = measure([WORKLOADS[0], RESIDENT], ["kinesalite"], 1, 0.1)
    finally:
        os.sched_setaffinity(0, before)
    error = {"error": "CannotStart: Node.js is not installed"}
    assert results[WORKLOADS[0].name] == {"kinesalite": [error]}
    assert results[RESIDENT.name] == {"kinesalite": [error]}


def test_every_target_has_a_version_or_says_that_it_is_not_installed():
    assert version("headrace") == "0.1.0"
    assert all(version(name) for name in PROGRAMS)


@pytest.mark.slow
def test_a_good_client_hardly_notices_bad_ones():
    alone, *others = slow_clients.measure(1000)
    assert len(others) == 6
    for each in others:
        assert each.median_ms < slow_clients.GOAL_TIMES * alone.median_ms, each
        assert each.rss_mb < 1500, each


def test_firehoses_records_are_of_the_size_that_is_said_and_of_each_key():
    records = [firehose.record(number) for number in (0, 7, 99_999)]
    assert {len(record) for record in records} == {100}
    assert json.loads(records[1])["c"] == "c7"
    body, _ = firehose.bodies(firehose.RECORDS_PER_PUT + 1)
    assert b"Firehose_20150804.PutRecordBatch" in body


def test_a_checkout_is_compared_with_another_call_by_call(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(PROGRAMS, checkouts.BEFORE, checkout(str(ROOT)))
    medians = checkouts.one_start(rounds=20)
    assert {"PutRecord", "PutRecords, 500", "GetRecords, 500", "Invoke, warm"} <= medians.keys()
    for name, seconds in medians.items():
        assert seconds.keys() == {checkouts.BEFORE, checkouts.HERE}, name
        assert min(seconds.values()) > 0, name


def test_a_call_that_a_cloud_refuses_is_not_timed(tmp_path: Path):
    with ServerProcess(tmp_path / "data") as server:
        calls = [("PutRecords, 1", put_records_call(1, "missing").signed("test"))]
        with pytest.raises(RuntimeError, match="Stream missing under account"):
            medians_of({"one": Connection(server.port)}, {"one": calls}, rounds=20)


def test_the_list_names_each_benchmark_and_what_it_measures() -> None:
    folder = ROOT / "scripts" / "benchmarks"
    listed = subprocess.run(
        [ROOT / "scripts" / "bench", "--list"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    with_a_command = {
        path.stem.removesuffix("_")
        for path in folder.glob("*.py")
        if "@click.command" in path.read_text()
    }
    assert len(with_a_command) > 20
    assert with_a_command <= {line.split()[0] for line in listed}
    assert all(len(line.split()) > 5 for line in listed)
