"""`headrace shards` on a cloud in process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace.cli import shards as shards_module
from headrace.cli.commands import headrace
from headrace.client.hash_keys import HASH_KEYS, hash_key_of
from tests.support.cloud import InProcessCloud

Run = Callable[..., Result]


@pytest.fixture
def kinesis(tmp_path: Path) -> Iterator[Any]:
    with InProcessCloud(tmp_path / "data") as cloud:
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName="s", ShardCount=2)
        kinesis.get_waiter("stream_exists").wait(StreamName="s")
        yield kinesis


@pytest.fixture
def run(kinesis: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(shards_module, "client", lambda *_, **__: kinesis)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(headrace, ["shards", *arguments], terminal_width=120)

    return invoke


def ranges(kinesis: Any) -> list[tuple[str, int, int]]:
    answer = kinesis.list_shards(StreamName="s", ShardFilter={"Type": "AT_LATEST"})["Shards"]
    found = [
        (
            shard["ShardId"],
            *(int(shard["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending")),
        )
        for shard in answer
    ]
    return sorted(found, key=lambda item: item[1])  # type: ignore[arg-type,return-value]


def put(kinesis: Any, *keys: str) -> None:
    kinesis.put_records(
        StreamName="s", Records=[{"PartitionKey": key, "Data": b"x"} for key in keys]
    )


def test_the_picture_shows_shards_heat_lineage_and_hot_keys(kinesis: Any, run: Run) -> None:
    kinesis.merge_shards(
        StreamName="s",
        ShardToMerge="shardId-000000000000",
        AdjacentShardToMerge="shardId-000000000001",
    )
    kinesis.get_waiter("stream_exists").wait(StreamName="s")
    kinesis.split_shard(
        StreamName="s", ShardToSplit="shardId-000000000002", NewStartingHashKey=str(HASH_KEYS // 4)
    )
    kinesis.get_waiter("stream_exists").wait(StreamName="s")
    put(kinesis, *["hot"] * 400, "cold")
    result = run("s", "--once", "--sample", "60")
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "s: 2 open shards, 7 records/s, 0.00 MiB/s" in lines
    assert "closed: 2 became 3 and 4" in lines
    assert "1 became 2" in lines
    # The ring: each shard's letters, and its borders.
    assert any(line.count("|") for line in lines)
    (hottest,) = [line for line in lines if line.startswith("hottest keys: ")]
    assert hottest.startswith("hottest keys: hot 0.7% of a shard (")
    assert any(line.startswith(("3 25.0%", "4 75.0%")) or " 3 25.0%" in line for line in lines)


def test_a_split_at_a_key_begins_the_second_child_there(kinesis: Any, run: Run) -> None:
    result = run("split", "s", "--at-key", "orders")
    assert result.exit_code == 0, result.output
    assert hash_key_of("orders") in [start for _, start, _ in ranges(kinesis)]
    assert "s: split shardId-" in result.output


def test_a_split_at_the_median_halves_the_load(kinesis: Any, run: Run) -> None:
    keys = [f"k{i}" for i in range(200)]
    put(kinesis, *keys)
    assert run("split", "s", "0", "--at-median").exit_code == 0
    (_, first_end), (second_start, second_end) = [r[1:] for r in ranges(kinesis)][:2]
    in_first = sum(hash_key_of(key) <= first_end for key in keys)
    in_second = sum(second_start <= hash_key_of(key) <= second_end for key in keys)
    assert abs(in_first - in_second) <= 1


def test_without_load_there_is_no_median(run: Run) -> None:
    result = run("split", "s", "--at-median")
    assert result.exit_code == 1
    assert "nothing parts them" in result.output


@pytest.mark.parametrize("key", ["", "k" * 257, "\udcff"])
def test_a_key_that_no_record_has_splits_nothing(key: str, kinesis: Any, run: Run) -> None:
    before = ranges(kinesis)
    done = run("split", "s", "--at-key", key)
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert done.output.startswith("Error: --at-key: a partition key ")
    assert ranges(kinesis) == before


def test_two_shards_are_merged(kinesis: Any, run: Run) -> None:
    result = run("merge", "s", "0", "shardId-000000000001")
    assert result.exit_code == 0, result.output
    assert [r[1:] for r in ranges(kinesis)] == [(0, HASH_KEYS - 1)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["split", "s"], "A split is at one of --at-key"),
        (["split", "s", "--at-key", "a", "--at-middle"], "A split is at one of --at-key"),
        (["split", "s", "7", "--at-middle"], "7 is no open shard; open are shardId-000000000000"),
        (["split", "s", "--at-hash", "-1"], "-1 is no hash key"),
        (["split", "s", "0", "--at-hash", "0"], "InvalidArgumentException: NewStartingHashKey 0"),
        (["merge", "s", "0", "0"], "InvalidArgumentException"),
        (["missing", "--once"], "ResourceNotFoundException: Stream missing"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    arguments: list[str], sentence: str, run: Run
) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert sentence in result.output
    assert "Traceback" not in result.output


def test_a_simulation_prints_a_table_and_writes_a_plot(tmp_path: Path, run: Run) -> None:
    plot = tmp_path / "week.png"
    result = run("simulate", "--days", "1", "--period", "600", "--shards", "4", "--plot", str(plot))
    assert result.exit_code == 0, result.output
    for name in ("do nothing", "UpdateShardCount", "policy", "on-demand"):
        assert name in result.output
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_simulation_reads_what_tail_printed_and_events(tmp_path: Path, run: Run) -> None:
    printed = {
        "partitionKey": "a",
        "approximateArrivalTimestamp": "2026-01-01T00:00:00+00:00",
        "data": "xyz",
    }
    event = {"carrier": "UA", "event_time": "2026-01-01T00:01:00Z"}
    file = tmp_path / "load.jsonl"
    file.write_text(f"{json.dumps(printed)}\n{json.dumps(event)}\n")
    result = run("simulate", str(file))
    assert result.exit_code == 0, result.output
    assert "2 records." in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}\n", "line 1, is no event"),
        ("[1]\n", "line 1, is no event"),
        ("", "There are no records."),
    ],
)
def test_a_recording_that_cannot_be_read(
    tmp_path: Path, text: str, sentence: str, run: Run
) -> None:
    file = tmp_path / "load.jsonl"
    file.write_text(text)
    result = run("simulate", str(file))
    assert result.exit_code == 1
    assert sentence in result.output
