"""Sketches of a stream's micro-batches, merged, against the truth, within theory's bounds."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import sketches
from spark_jobs.common import heavy, quantiles
from tests.spark_jobs.feed import Event, Feed, arguments, cut, flights

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def test_merged_sketches_are_within_the_error_of_their_theory(
    spark: SparkSession, tmp_path: Path, nightly: bool
) -> None:
    some = flights(3000 if nightly else 1500)
    feed = Feed(spark, tmp_path / "input")
    for batch in cut(some, len(some) // 2):
        feed.put(batch)
    argv = arguments(tmp_path, "--watermark", "60 days")
    sketches.JOB.run(spark, sketches.JOB.parse(argv), feed.stream())

    def written(name: str) -> DataFrame:
        return sketches.read(spark, (tmp_path / "output").as_uri() + "/", name)

    distinct = {
        r["origin"]: r["aircraft"]
        for r in sketches.distinct_estimate(written("distinct")).collect()
    }
    medians = {
        r["origin"]: r["delay"] for r in sketches.delay_quantile(written("delays"), 0.5).collect()
    }
    for origin in ("EWR", "JFK", "LGA"):
        own = [event for event in some if event["origin"] == origin]
        truth = len({event["tailnum"] for event in own} - {None})
        assert abs(distinct[origin] - truth) <= 4 * 1.04 / math.sqrt(2**sketches.HLL_BITS) * truth
        known = [event["dep_delay"] for event in own if event["dep_delay"] is not None]
        # Ties: the quantile's own ranks reach from those below it to those up to it.
        below = sum(delay < medians[origin] for delay in known) / len(known)
        upto = sum(delay <= medians[origin] for delay in known) / len(known)
        assert below - 0.0165 <= 0.5 <= upto + 0.0165
    truths = Counter(event["tailnum"] for event in some if event["tailnum"])
    asked = spark.createDataFrame([(name,) for name in truths], "tailnum STRING")
    found = {
        r["tailnum"]: r["flights"]
        for r in sketches.count_estimate(written("counts"), asked).collect()
    }
    assert all(found[name] >= count for name, count in truths.items())
    bound = math.e / sketches.WIDTH * sum(truths.values())
    beyond = sum(found[name] - count > bound for name, count in truths.items())
    assert beyond <= math.exp(-sketches.ROWS) * len(truths)
    drawn = [row["event_id"] for row in sketches.sample(written("sample")).collect()]
    whole = [
        row["event_id"]
        for row in sketches.sample(
            spark.createDataFrame(
                [(e["event_id"], e["origin"], e["dep_delay"]) for e in some],
                "event_id STRING, origin STRING, dep_delay INT",
            )
        ).collect()
    ]
    assert drawn == whole
    assert len(set(drawn)) == sketches.SAMPLE
    # A share p among 100 drawn has the deviation sqrt(p (1 - p) / 100).
    share = sum(e["origin"] == "EWR" for e in some) / len(some)
    origins = {e["event_id"]: e["origin"] for e in some}
    got = sum(origins[name] == "EWR" for name in drawn) / len(drawn)
    assert abs(got - share) <= 4 * math.sqrt(share * (1 - share) / len(drawn))


def zipf(count: int, names: int, exponent: float, seed: int) -> list[str]:
    """Names as often as language has words."""
    weights = [1 / rank**exponent for rank in range(1, names + 1)]
    return random.Random(seed).choices([f"N{n}" for n in range(names)], weights, k=count)


def within_theory(found: heavy.HeavyHitters, truths: Counter[str]) -> None:
    errors = [found.estimate(name) - count for name, count in truths.items()]
    assert min(errors) >= 0
    # The mean of what goes beyond, and four deviations: each name does with a probability of exp(-5) at most.
    share = math.exp(-heavy.DEPTH)
    allowed = len(errors) * share + 4 * math.sqrt(len(errors) * share)
    assert sum(error > math.e / heavy.WIDTH * sum(truths.values()) for error in errors) <= allowed
    sure = (1 / heavy.CANDIDATES + math.e / heavy.WIDTH) * sum(truths.values())
    names = [name for name, _ in found.candidates()]
    assert len(names) == heavy.CANDIDATES
    frequent = {name for name, count in truths.items() if count > sure}
    assert len(frequent) > 5
    assert frequent <= set(names)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_heavy_hitters_are_found_and_counted_within_theory(seed: int) -> None:
    items = zipf(60_000, 20_000, 1.1, seed)
    whole = heavy.HeavyHitters()
    for name in items:
        whole.add(name)

    within_theory(whole, Counter(items))


def test_merged_heavy_hitters_are_those_of_theory_in_whatever_order() -> None:
    # Sorted: each part has names that the others have not.
    items = sorted(zipf(60_000, 20_000, 1.1, 7))
    parts = [heavy.HeavyHitters() for _ in range(6)]
    for place, name in enumerate(items):
        parts[place * len(parts) // len(items)].add(name)

    for order in (range(6), reversed(range(6))):
        merged = heavy.HeavyHitters()
        for number in order:
            merged.merge(parts[number])
        assert merged.total == len(items)
        within_theory(merged, Counter(items))


@pytest.mark.slow
def test_the_job_finds_the_frequent_aircraft_of_all_its_micro_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    some = flights(3000)
    # Three aircraft fly more than theory demands; the rest are as they were.
    often: list[Event] = [
        event | {"tailnum": f"HEAVY{place % 30 // 10}"}
        if place % 30 in (0, 1, 10, 11, 20)
        else event
        for place, event in enumerate(some)
    ]
    feed = Feed(spark, tmp_path / "input")
    for batch in cut(often, len(often) // 3):
        feed.put(batch)
    argv = arguments(tmp_path, "--watermark", "60 days")
    sketches.JOB.run(spark, sketches.JOB.parse(argv), feed.stream())

    def written(name: str) -> DataFrame:
        return sketches.read(spark, (tmp_path / "output").as_uri() + "/", name)

    found = sketches.heavy_hitters(written("counts"), written("heavy"), 3).collect()

    truths = Counter(event["tailnum"] for event in often if event["tailnum"])
    sure = (1 / heavy.CANDIDATES + math.e / heavy.WIDTH) * sum(truths.values())
    assert all(truths[f"HEAVY{number}"] > sure for number in range(3))
    assert {row["tailnum"] for row in found} == {"HEAVY0", "HEAVY1", "HEAVY2"}
    assert all(row["flights"] >= truths[row["tailnum"]] for row in found)


@pytest.mark.parametrize("parts", [1, 7])
def test_a_sketch_of_delays_keeps_all_weights_and_is_within_its_error(parts: int) -> None:
    dice = random.Random(parts)
    wrong = 0
    for _ in range(20):
        values = list(range(5_000))
        dice.shuffle(values)
        packed: list[bytes] = []
        for part in range(parts):
            own = quantiles.Quantiles()
            own.add(values[part::parts])
            packed.append(own.pack())
        found = quantiles.merged(packed)

        assert found.count == len(values)
        assert len(found.pack()) < 8 * 3 * quantiles.K
        shares = [share / 20 for share in range(1, 20)]
        errors = [abs((found.quantile(share) or 0) / len(values) - share) for share in shares]
        wrong += max(errors) > 0.0165
        assert found.quantile(1.0) is not None
    # One in a hundred may be; of twenty, three are with a probability of 0.1 %.
    assert wrong < 3


def test_a_sketch_of_few_numbers_is_exact_and_the_same_when_it_is_made_again() -> None:
    def made() -> quantiles.Quantiles:
        sketch = quantiles.Quantiles()
        sketch.add([30, 10, 20, 40])
        return sketch

    assert [made().quantile(share) for share in (0, 0.25, 0.26, 0.5, 1)] == [10, 10, 20, 20, 40]
    assert made().pack() == made().pack()
    assert quantiles.Quantiles().quantile(0.5) is None


@pytest.mark.slow
def test_the_error_of_distinct_counts_is_theorys_over_many_seeds(spark: SparkSession) -> None:
    seeds, aircraft, parts = 60, 5_000, 2
    flown = spark.range(seeds * aircraft * parts).selectExpr(
        f"CAST(id % {seeds} AS STRING) AS origin",
        f"id DIV {seeds * aircraft} AS part",
        # Half of the second part's aircraft have flown in the first.
        f"concat(id % {seeds}, '-', id DIV {seeds} % {aircraft} + id DIV {seeds * aircraft} * {aircraft // 2})"
        " AS tailnum",
    )
    sketched = [sketches.distinct(flown.where(f"part = {part}")) for part in range(parts)]

    found = sketches.distinct_estimate(sketched[0].unionByName(sketched[1])).collect()

    truth = aircraft * 3 / 2
    errors = [row["aircraft"] / truth - 1 for row in found]
    deviation = 1.04 / math.sqrt(2**sketches.HLL_BITS)
    assert len(errors) == seeds
    assert max(map(abs, errors)) <= 4 * deviation
    # Of a normal error, the squares of 60 add up to less than 99.6 deviations in 99.9 % of cases: chi-square.
    assert sum((error / deviation) ** 2 for error in errors) <= 99.6
    # No bias: the mean of 60.
    assert abs(sum(errors) / seeds) <= 4 * deviation / math.sqrt(seeds)


@pytest.mark.slow
def test_a_sample_is_uniform_over_many_seeds(spark: SparkSession) -> None:
    seeds, events, bins = 200, 2_000, 20
    names = [f"e{number:05}" for number in range(events)]
    rows = spark.createDataFrame([(name,) for name in names], "event_id STRING")
    draws = rows.select(
        "event_id", *(sketches.drawn(seed).alias(f"s{seed}") for seed in range(seeds))
    ).collect()

    counts: Counter[int] = Counter()
    for seed in range(seeds):
        least = sorted(draws, key=lambda row: row[f"s{seed}"])[: sketches.SAMPLE]
        counts.update(int(row["event_id"][1:]) * bins // events for row in least)

    expected = seeds * sketches.SAMPLE / bins
    chi_square = sum((counts[number] - expected) ** 2 / expected for number in range(bins))
    # 19 degrees of freedom: below 43.8 in 99.9 % of cases, above 5.4 in as many (nor too even to be random).
    assert 5.4 < chi_square < 43.8


def test_the_sample_is_of_the_smallest_draws_and_merges(spark: SparkSession) -> None:
    rows = [(f"e{number}", "JFK", number) for number in range(1_000)]
    schema = "event_id STRING, origin STRING, dep_delay INT"
    parts = [spark.createDataFrame(rows[start::3], schema) for start in range(3)]

    def names(frame: DataFrame) -> list[str]:
        return [row["event_id"] for row in frame.collect()]

    whole = spark.createDataFrame(rows, schema)
    merged = sketches.sample(parts[0])
    for part in parts[1:]:
        merged = merged.unionByName(sketches.sample(part))
    drawn = names(sketches.sample(merged))
    assert drawn == names(sketches.sample(whole))
    assert drawn == names(whole.orderBy(sketches.drawn(sketches.SEED)).limit(sketches.SAMPLE))
    assert set(drawn) != set(names(sketches.sample(whole, seed=1)))


@pytest.mark.slow
def test_quantiles_are_within_their_rank_error(spark: SparkSession) -> None:
    # 40,000 different values in four parts, far more than a sketch holds: the rank is the value.
    values = spark.range(40_000).selectExpr("'JFK' AS origin", "id AS dep_delay", "id % 4 AS part")
    parts = [sketches.delays(values.where(f"part = {part}")) for part in range(4)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.unionByName(part)

    merged.cache()

    for share in (0.01, 0.25, 0.5, 0.9, 0.99):
        (found,) = sketches.delay_quantile(merged, share).collect()
        assert abs(found["delay"] / 40_000 - share) <= 0.0165
