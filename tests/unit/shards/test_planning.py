"""A plan: shards by the tighter limit, costs by each record's own rounding, and what no mode helps."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.plan import plan as command
from headrace.shards.planning import (
    US_EAST_1,
    Load,
    firehose_cost,
    on_demand_cost_of,
    plan,
    provisioned_cost_of,
)


@pytest.mark.parametrize(
    ("load", "shards"),
    [
        (Load([100], 1000, 2000), 3),
        (Load([100_000], 50, 100), 15),
        (Load([10], 0.1, 0.1), 1),
    ],
)
def test_shards_are_of_the_tighter_limit(load: Load, shards: int):
    size = plan(load, US_EAST_1).modes[0].size
    assert size == ("1 shard" if shards == 1 else f"{shards} shards")


def test_each_record_is_rounded_by_itself():
    # The mean of these is 513 bytes, which would be one unit of 1 KiB each; by themselves they are one and two.
    assert on_demand_cost_of(US_EAST_1, 0, 2 << 20, [1, 1025], 0) == pytest.approx(3 * 0.08)
    assert firehose_cost(US_EAST_1, 1 << 20, [100]) == pytest.approx(5 * 0.029)
    assert provisioned_cost_of(US_EAST_1, 0, 2e6, [1, 25 * 1024 + 1]) == pytest.approx(3 * 0.014)


def test_a_queue_a_channel_and_fan_out_are_in_the_plan():
    load = Load([1000], 1000, 2000, readers=2)
    parts = {choice.what: choice for choice in plan(load, US_EAST_1).readers}
    # 2,628,000,000 records a month: 2 requests for 10 of them, 1 KiB each into S3, and 2 x 3 consumer shards.
    assert parts["queue"].dollars == pytest.approx(2628 * 2 / 10 * 0.40)
    assert parts["queue"].size == "6 consumers"
    assert parts["channel to S3"].dollars == pytest.approx(2.628e9 / (1 << 20) * 0.0275)
    assert parts["enhanced fan-out"].dollars == pytest.approx(
        2 * (3 * 730 * 0.015 + 2.628e12 / (1 << 30) * 0.013)
    )
    tenfold = {choice.what: choice for choice in plan(load.times(10), US_EAST_1).readers}
    assert tenfold["queue"].dollars == pytest.approx(10 * parts["queue"].dollars)


def test_the_cheapest_mode_changes_with_the_load():
    small = Load([500], 1, 2)
    assert plan(small, US_EAST_1).mode.what == "provisioned"
    assert (
        plan(small.times(10), US_EAST_1).modes[0].dollars >= plan(small, US_EAST_1).modes[0].dollars
    )


def test_what_no_mode_helps_is_said():
    warnings = plan(Load([2 << 20], 10, 20_000, hottest_share=0.5, readers=3), US_EAST_1).warnings
    assert [
        next(w for w in warnings if word in w) for word in ("salt", "fan-out", "MaxRecordSizeInKiB")
    ]


def test_the_command_plans_for_a_capture(tmp_path: Path):
    file = tmp_path / "capture.jsonl"
    file.write_text('{"a": 1}\n' * 10)
    result = CliRunner().invoke(command, [str(file), "--rate", "100"])
    assert result.exit_code == 0, result.output
    assert "What if 10 times: 1,000 records/s" in result.output
    assert "needed" not in result.output
    assert "give --rate" in CliRunner().invoke(command, [str(file)]).output
    prices = tmp_path / "prices.json"
    prices.write_text('{"shard_our": 1}')
    refused = CliRunner().invoke(command, [str(file), "--rate", "1", "--prices", str(prices)])
    assert "no price 'shard_our'" in refused.output


def test_a_capture_of_tail_has_its_rate_its_peak_and_its_hottest_key(tmp_path: Path):
    lines = [
        json.dumps({
            "partitionKey": "hot" if i % 4 else str(i),
            "approximateArrivalTimestamp": f"2026-11-27T10:00:{second:02}.{i % 10}00+00:00",
            "data": "x" * (1 if i % 2 else 1100),
        })
        for second, count in ((0, 10), (5, 70), (10, 20))
        for i in range(count)
    ]  # fmt: skip
    file = tmp_path / "capture.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    result = CliRunner().invoke(command, [str(file), "--times", "100"])
    assert result.exit_code == 0, result.output
    first = result.output.splitlines()[0]
    # 100 records in the 10.9 seconds from the first to the last one.
    assert first.startswith("9.2 records/s of"), first
    assert first.endswith("peak 70"), first
    assert "What if 100 times" in result.output
    assert "The hottest key has 74% of the records" in result.output
    file.write_bytes(file.read_bytes()[:-20])
    cut_off = CliRunner().invoke(command, [str(file)])
    assert "capture.jsonl.gz is no whole gzip file" in cut_off.output
    broken = tmp_path / "broken.jsonl"
    broken.write_text(lines[0] + "\nhello\n")
    refused = CliRunner().invoke(command, [str(broken)])
    assert "line 2 is no record of headrace tail --json" in refused.output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--rate", "nan"], "nan is not a number."),
        (["--rate", "1e300"], "is not in the range 0<x<=1000000000.0"),
        (["--rate", "5", "--times", "inf"], "is not in the range"),
        (["--rate", "5", "--prices", "p.json"], "p.json: shard_hour is dollars, not 'a'."),
    ],
)
def test_what_is_no_number_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
):
    monkeypatch.chdir(tmp_path)
    Path("records").write_bytes(b"x")
    Path("p.json").write_text('{"shard_hour": "a"}')
    outcome = CliRunner().invoke(command, ["records", *words])
    assert sentence in outcome.output
    assert outcome.exit_code in (1, 2)


@pytest.mark.parametrize(("source", "sentence"), [("/nowhere", "no file"), ("/tmp", "a folder")])
def test_a_path_is_no_stream(source: str, sentence: str):
    outcome = CliRunner().invoke(command, [source])
    assert f"{source} is {sentence}, and no stream." in outcome.output
