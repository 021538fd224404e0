"""Reads events from a stream's records; separates unreadable records, and drops late and repeated events.

**Input.** A record's `data` is a JSON object. A record that is not a JSON object, lacks a required field, or has a
value of another type is *unreadable*: the job counts it and, with `--quarantine`, the same micro-batch writes it there
with the reason. When the producers' schema drifts, a change is handled in one of these ways:

- ignored: a field that no job knows;
- null: a missing field that the job does not require;
- converted to its text (`7` is `"7"`): a number, a boolean or an object in a string field;
- quarantined as `missing: carrier`: an event that lacks a field that the job requires, or has null there;
- quarantined as `a value of another type`: an event with a string or a fraction in an integer field, a number that does
  not fit, a string for a boolean, or an invalid time; also in optional fields: a wrong value is worse than none;
- quarantined as `a time ahead of its record's`: an event whose time is more than a day after its record's arrival in
  the stream, such as milliseconds in place of seconds: the watermark would follow it, and drop all other events.

**Lateness.** Every streaming job first drops late and repeated events. An event is late if its time is not after the
watermark at the start of the *previous* micro-batch, which is the greatest event time of the micro-batches before that
one, minus `--watermark` (for two streams: the smaller of both). The job prints the number of dropped events. A run
takes the whole backlog as one micro-batch, up to `--max-records-per-shard`, and inside it nothing is late. With smaller
micro-batches shards drain at different speeds: then give a watermark as wide as the history.
"""

from __future__ import annotations

import operator
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

FLIGHT_SCHEMA = (
    "event_id STRING, event_time TIMESTAMP, carrier STRING, flight INT, tailnum STRING, "
    "origin STRING, dest STRING, dep_delay INT, arr_delay INT, distance INT, cancelled BOOLEAN"
)
FLIGHT_REQUIRED = ("event_id", "event_time", "carrier", "origin", "dest", "cancelled")
OBSERVATION = "events"
# The column in which from_json leaves the text of a record that does not match the schema; null for a matching one.
_MALFORMED = "_malformed"
# Whether an event's time is ahead of its record's arrival in the stream; false if the arrival is unknown.
_AHEAD = "_ahead"
ARRIVAL = "approximateArrivalTimestamp"
MOST_AHEAD = "INTERVAL 1 DAY"


def parsed(records: DataFrame, schema: str) -> DataFrame:
    """Return `records` with the columns of `schema` (one is event_time) read from `data`, `_malformed` and `_ahead`."""
    event = F.from_json(
        F.col("data").cast("string"),
        f"{schema}, {_MALFORMED} STRING",
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _MALFORMED},
    )
    rows = records.select("*", event.alias("event")).select(*records.columns, "event.*")
    ahead = F.lit(False)
    if ARRIVAL in records.columns:
        ahead = F.coalesce(F.col("event_time") > F.col(ARRIVAL) + F.expr(MOST_AHEAD), ahead)
    return rows.withColumn(_AHEAD, ahead)


def readable(required: tuple[str, ...]) -> Column:
    """Return whether a parsed row is an event: JSON, with the schema's types, `required` fields and a possible time."""
    present = [F.col(name).isNotNull() for name in required]
    return reduce(operator.and_, present) & F.col(_MALFORMED).isNull() & ~F.col(_AHEAD)


def flights(records: DataFrame) -> DataFrame:
    """Return the flights in `records`, with FLIGHT_SCHEMA's columns; see `readable_events`."""
    return readable_events(records, FLIGHT_SCHEMA, FLIGHT_REQUIRED, OBSERVATION)


def flights_once(records: DataFrame, watermark: str) -> DataFrame:
    """Return the flights in `records` without late and repeated ones; see `on_time_once`."""
    return on_time_once(flights(records), watermark)


def readable_events(
    records: DataFrame, schema: str, required: tuple[str, ...], observation: str
) -> DataFrame:
    """Return the readable events in `records`; `observation` counts all rows, `read`, and the others, `unreadable`."""
    rows = parsed(records, schema)
    return (
        rows.observe(
            observation,
            F.count(F.lit(1)).alias("read"),
            F.count_if(~readable(required)).alias("unreadable"),
        )
        .where(readable(required))
        .drop(*records.columns, _MALFORMED, _AHEAD)
    )


def with_reason(records: DataFrame, schema: str, required: tuple[str, ...]) -> DataFrame:
    """Return parsed records, see `parsed`, with `reason`: why one is unreadable; null for a readable one."""
    missing = F.array_compact(
        F.array(*(F.when(F.col(name).isNull(), F.lit(name)) for name in required))
    )
    text = F.col("data").cast("string")
    # from_json treats an empty string as no record at all: neither an object nor malformed.
    nothing = F.col("data").isNull() | (F.trim(text) == "")
    json = F.json_object_keys(text).isNotNull() & _is_utf8(F.col("data"))
    reason = (
        F.when(nothing, F.lit("empty"))
        .when(~json, F.lit("no JSON object"))
        .when(F.col(_MALFORMED).isNotNull(), F.lit("a value of another type"))
        .when(F.col(_AHEAD), F.lit("a time ahead of its record's"))
        .otherwise(F.concat(F.lit("missing: "), F.concat_ws(", ", missing)))
    )
    reason = F.when(~readable(required), reason)
    return parsed(records, schema).withColumn("reason", reason).drop(_MALFORMED, _AHEAD)


def _is_utf8(data: Column) -> Column:
    """Return whether bytes are valid UTF-8; from 4.0 on Spark has a function for this."""
    # Invalid bytes become U+FFFD in UTF-16, and so come back as other bytes.
    there = F.encode(data.cast("string"), "UTF-16BE")
    return F.decode(there, "UTF-16BE").cast("binary") == data


def on_time_once(
    rows: DataFrame, watermark: str, key: tuple[str, ...] = ("event_id",)
) -> DataFrame:
    """Return `rows` without late rows (by `watermark`) and repetitions; outside a stream no row is late."""
    if rows.isStreaming:
        return rows.withWatermark("event_time", watermark).dropDuplicatesWithinWatermark(list(key))
    return rows.dropDuplicates(list(key))
