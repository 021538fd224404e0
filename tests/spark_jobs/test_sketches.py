"""Sketches of a stream's micro-batches, merged, against the truth, within theory's bounds."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import sketches
from tests.spark_jobs.feed import Feed, arguments, cut, flights

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def test_merged_sketches_are_within_the_error_of_their_theory(
    spark: SparkSession, tmp_path: Path
) -> None:
    some = flights(3000)
    feed = Feed(spark, tmp_path / "input")
    for batch in cut(some, 1500):
        feed.put(batch)
    argv = arguments(tmp_path, "--watermark", "60 days")
    sketches.run(spark, feed.stream(), sketches.parse_arguments(argv))

    def written(name: str) -> DataFrame:
        return spark.read.parquet((tmp_path / "output" / name).as_uri())

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
    bound = math.e / sketches.WIDTH * truths.total()
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
