"""Computes estimates over a stream in little memory, with known error bounds; see `spark_jobs/common/`.

Each micro-batch adds, under `--output`, sketches of its flights to five tables of `common/day_tables.py`, by the day of
the micro-batch; older ones are merged, and `read()` has rows that merge to the sketches of all flights:

- `distinct/`: HyperLogLog (12 bits) of the tail numbers by airport; relative standard error 1.04 / sqrt(4096).
- `delays/`: KLL (`quantiles.py`) of the departures' delays by airport; rank error of 1.65 % in 99 % of cases.
- `counts/`: count-min (5 rows of 1,024) of flights by tail number; never too low, and too high by more than
  e / 1024 of all flights with a probability of at most exp(-5).
- `heavy/`: at most 256 tail numbers per partition, with the most flights by a separate count-min table and heap
  (`heavy.py`). With `counts` they give the heavy hitters: `heavy_hitters()` has every aircraft with more than
  1 / 256 + e / 1024 of all flights, and no aircraft's number is too low.
- `sample/`: a reservoir of 100 flights, those with the smallest random numbers (the hashes of their ids):
  merged, they are a uniform sample of all flights, the same in every run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType
from pyspark.sql.window import Window

from spark_jobs.common import batches, heavy, quantiles
from spark_jobs.common.day_tables import DayTable
from spark_jobs.common.job import Job

NEEDS_SPARK = "3.5"
HLL_BITS = 12
ROWS, WIDTH = heavy.DEPTH, heavy.WIDTH
SAMPLE = 100
SEED = 0


def distinct(flights: DataFrame) -> DataFrame:
    """Return a sketch of the tail numbers by airport: origin, sketch."""
    return flights.groupBy("origin").agg(F.hll_sketch_agg("tailnum", HLL_BITS).alias("sketch"))


def distinct_estimate(sketches: DataFrame) -> DataFrame:
    """Return origin and aircraft, estimated from the rows of several `distinct` sketches."""
    merged = F.hll_sketch_estimate(F.hll_union_agg("sketch"))
    return sketches.groupBy("origin").agg(merged.alias("aircraft"))


def delays(flights: DataFrame) -> DataFrame:
    """Return a sketch of the delays by airport: origin, sketch."""
    known = flights.where("dep_delay IS NOT NULL").selectExpr("origin", "CAST(dep_delay AS BIGINT)")
    parts = known.mapInArrow(quantiles.sketches_of, "name STRING, sketch BINARY")
    return _delays_by(parts, F.col("name").alias("origin"))


def _delays_by(sketches: DataFrame, *key: Column) -> DataFrame:
    return (
        sketches.groupBy(*key)
        .agg(F.collect_list("sketch").alias("sketches"))
        .withColumn("sketch", _merged("sketches"))
        .drop("sketches")
    )


def delay_quantile(sketches: DataFrame, share: float) -> DataFrame:
    """Return origin and delay (minutes): the quantile `share`, estimated from the rows of several `delays` sketches."""
    merged = sketches.groupBy("origin").agg(F.collect_list("sketch").alias("sketches"))
    return merged.select("origin", _quantile("sketches", F.lit(share)).alias("delay"))


# Without annotations: newer Sparks would infer the kind of the function from them.
_merged = F.udf(lambda packed: quantiles.merged(packed).pack(), BinaryType())
_quantile = F.udf(lambda packed, share: quantiles.merged(packed).quantile(share), LongType())


def counts(flights: DataFrame) -> DataFrame:
    """Return the count-min table of the tail numbers: row, cell, count; without empty cells."""
    rows = flights.where("tailnum IS NOT NULL").select("tailnum", _rows())
    return rows.groupBy("row", _cell()).agg(F.count(F.lit(1)).alias("count"))


def count_estimate(tables: DataFrame, tail_numbers: DataFrame) -> DataFrame:
    """Return tailnum and flights, estimated for the `tail_numbers` (tailnum) from the rows of several `counts`."""
    merged = tables.groupBy("row", "cell").agg(F.sum("count").alias("count"))
    asked = tail_numbers.select("tailnum", _rows()).select("tailnum", "row", _cell())
    joined = asked.join(merged, ["row", "cell"], "left").fillna(0, ["count"])
    return joined.groupBy("tailnum").agg(F.min("count").alias("flights"))


def candidates(flights: DataFrame) -> DataFrame:
    """Return the tail numbers that may be frequent: tailnum, at most heavy.CANDIDATES per partition."""
    names = flights.select("tailnum").mapInArrow(
        heavy.candidates_of, "name STRING, estimate BIGINT"
    )
    return names.select(F.col("name").alias("tailnum")).distinct()


def heavy_hitters(tables: DataFrame, names: DataFrame, most: int) -> DataFrame:
    """Return tailnum and flights, estimated: the `most` frequent, from several `counts` and `candidates`."""
    estimates = count_estimate(tables, names.select("tailnum").distinct())
    return estimates.orderBy(F.col("flights").desc(), "tailnum").limit(most)


def sample(flights: DataFrame, seed: int = SEED) -> DataFrame:
    """Return SAMPLE of the flights, or of several samples' rows: event_id, origin, dep_delay, by random number."""
    return flights.select("event_id", "origin", "dep_delay").orderBy(drawn(seed)).limit(SAMPLE)


def drawn(seed: int) -> Column:
    """Return a flight's random number, which is the same in every run with the same `seed`."""
    return F.xxhash64(F.lit(seed), "event_id")


def _rows() -> Column:
    return F.explode(F.sequence(F.lit(0), F.lit(ROWS - 1))).alias("row")


def _cell() -> Column:
    return F.pmod(F.xxhash64("row", "tailnum"), F.lit(WIDTH)).alias("cell")


@dataclass(frozen=True)
class Kind:
    """A kind of sketch: what makes one of a micro-batch's flights, and what merges those of one day."""

    of_flights: Callable[[DataFrame], DataFrame]
    merged: Callable[[DataFrame], DataFrame]


def _samples(rows: DataFrame) -> DataFrame:
    by_number = Window.partitionBy("day").orderBy(drawn(SEED))
    place = F.row_number().over(by_number)
    return rows.withColumn("_place", place).where(F.col("_place") <= SAMPLE).drop("_place")


KINDS = {
    "distinct": Kind(
        distinct,
        lambda rows: rows.groupBy("day", "origin").agg(F.hll_union_agg("sketch").alias("sketch")),
    ),
    "delays": Kind(delays, lambda rows: _delays_by(rows, F.col("day"), F.col("origin"))),
    "counts": Kind(
        counts, lambda rows: rows.groupBy("day", "row", "cell").agg(F.sum("count").alias("count"))
    ),
    "heavy": Kind(candidates, lambda rows: rows.distinct()),
    "sample": Kind(sample, _samples),
}


def _table(spark: SparkSession, output: str, name: str, checkpoint: str | None = None) -> DayTable:
    return DayTable(spark, f"{output}{name}/", None, KINDS[name].merged, checkpoint)


def read(spark: SparkSession, output: str, name: str) -> DataFrame:
    """Return the sketches `name` of all micro-batches. Raises ValueError when there are none yet."""
    return _table(spark, output, name).read().drop("day")


def sketch(spark: SparkSession, arguments: argparse.Namespace) -> batches.Sink:
    """Return what adds every sketch of a micro-batch's flights."""
    tables = {name: _table(spark, arguments.output, name, arguments.checkpoint) for name in KINDS}

    def write(flights: DataFrame, batch_id: int) -> None:
        flights.persist()
        try:
            for name, table in tables.items():
                own = KINDS[name].of_flights(flights)
                table.add(own.withColumn("day", F.current_date()), batch_id)
        finally:
            flights.unpersist()

    return write


JOB = Job("sketches", "Estimates over a stream in little memory.", sink=sketch)


if __name__ == "__main__":
    sys.exit(JOB.main())
