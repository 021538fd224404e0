"""Reads the options of the source and the sink.

The names are those of the `aws-kinesis` connector that EMR bundles, in any letter case. `option_table` lists them with
their defaults; `docs/spark-kinesis.md` shows the table.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from headrace.spark.offsets import Init, TrimHorizon, has_latest
from headrace.spark.option_table import MOST_RECORDS_PER_FETCH, SINK, SOURCE, Option, region_of

log = logging.getLogger(__name__)

READ_BYTES_PER_S = 2 * 1024 * 1024  # documented: a shard's read capacity


class InvalidOption(ValueError):
    """An option that is unknown, missing, or has an invalid value."""


@dataclass(frozen=True)
class Connection:
    """The settings for calls to Kinesis.

    Attributes:
        stream: the stream's name.
        region: its region; None for boto3's default.
        endpoint_url: Kinesis' endpoint; None for boto3's default (AWS, or AWS_ENDPOINT_URL).
        role_arn, role_session_name: the role to assume for every call, or None; `sts_endpoint_url` None for boto3's.
        access_key_id, secret_key, session_token: credentials; None for boto3's search.
        most_retries: how often a call that is throttled or fails is sent again.
        retry_interval_ms, longest_retry_interval_ms: the first wait, which doubles each time, and the longest one.
    """

    stream: str
    region: str | None = None
    endpoint_url: str | None = None
    role_arn: str | None = None
    role_session_name: str = "headrace-spark"
    sts_endpoint_url: str | None = None
    access_key_id: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    most_retries: int = 11
    retry_interval_ms: int = 100
    longest_retry_interval_ms: int = 5_000


@dataclass(frozen=True)
class Options(Connection):
    """The options of a query.

    Attributes:
        init: where a query without a checkpoint begins; None for LATEST in a stream and TRIM_HORIZON in a batch.
        fail_on_data_loss: whether lost records fail the query; otherwise they are skipped with a warning.
        max_records_per_shard: the limit for one micro-batch; None for no limit.
        max_records_per_trigger: the limit for one micro-batch over all shards; None for no limit.
        records_per_fetch: the limit of one GetRecords call.
        max_bytes_per_shard, max_bytes_per_trigger: limits on a micro-batch's data; one record per shard always fits.
        fetch_interval_ms: between two calls to a shard, on average: 200 keeps Kinesis's five calls a second.
        read_bytes_per_s: a shard's average read rate: Kinesis' limit, or less if several readers share it.
        max_fetch_time_s: how long a micro-batch with records waits for a shard's allowance; None: without limit when a
            stream is drained (AvailableNow), else almost not.
        describe_interval_s: the interval between two listings of shards.
        available_now: whether the run takes all available records, for Sparks that do not tell the source.
        fan_out: whether executors read by enhanced fan-out, as the consumer `consumer_name`.
        read_mode: who reads Kinesis: `driver`, `executors` (the distributed mode), or `auto`, see `planning`.
        metadata_path: where the distributed mode keeps its files; None for the default.
        max_tasks: how many tasks a micro-batch of the distributed mode has at most.
        min_batches_to_retain: of how many batches the distributed mode keeps the files.
    """

    init: Init | None = None
    fail_on_data_loss: bool = True
    max_records_per_shard: int | None = 100_000
    max_records_per_trigger: int | None = None
    records_per_fetch: int = MOST_RECORDS_PER_FETCH
    max_bytes_per_shard: int | None = None
    max_bytes_per_trigger: int | None = None
    fetch_interval_ms: int = 200
    read_bytes_per_s: int = READ_BYTES_PER_S
    max_fetch_time_s: int | None = None
    describe_interval_s: float = 1.0
    available_now: bool = False
    fan_out: bool = False
    consumer_name: str | None = None
    read_mode: str = "auto"
    metadata_path: str | None = None
    max_tasks: int = 32
    min_batches_to_retain: int = 100

    @property
    def is_unlimited(self) -> bool:
        """Whether a micro-batch has no limit of records, bytes and time."""
        limits = (
            self.max_records_per_shard, self.max_records_per_trigger, self.max_bytes_per_shard,
            self.max_bytes_per_trigger, self.max_fetch_time_s,
        )  # fmt: skip
        return all(limit is None for limit in limits)

    @property
    def limits_shards_alone(self) -> bool:
        """Whether no limit is one of all shards together, so that children need not wait for their share of it."""
        return self.max_records_per_trigger is None and self.max_bytes_per_trigger is None


@dataclass(frozen=True)
class SinkOptions(Connection):
    """The options of a write.

    Attributes:
        record_ttl_ms: how long a record that Kinesis refuses is tried again before the write fails.
        ordered: whether a key's records are stored in order, for which a request has a key only once.
    """

    record_ttl_ms: int = 30_000
    ordered: bool = True


def parse_options(texts: Mapping[str, str]) -> Options:
    """Parse the options of a source. Raises InvalidOption."""
    options = Options(**_values(texts, "source", SOURCE))
    if options.fan_out and not options.consumer_name:
        raise InvalidOption("kinesis.consumerName must be specified for SubscribeToShard.")
    return options


def as_batch(options: Options) -> Options:
    """Return a source's options for a batch read, which begins at TRIM_HORIZON by default. Raises InvalidOption."""
    if options.init is not None and has_latest(options.init):
        raise InvalidOption("A batch read cannot start at LATEST: there is nothing after it.")
    if options.fan_out:
        raise InvalidOption("A batch read is by GetRecords: leave out kinesis.consumerType.")
    return replace(options, init=options.init or TrimHorizon())


def as_one_batch(options: Options, texts: Mapping[str, str]) -> Options:
    """Return a source's options for a Spark in which AvailableNow is a single batch and is not told to the source.

    Only explicitly set limits apply, and none at all if the option says that the run is such a one.
    """
    if options.available_now:
        return replace(
            options, max_records_per_shard=None, max_records_per_trigger=None,
            max_bytes_per_shard=None, max_bytes_per_trigger=None, max_fetch_time_s=None,
        )  # fmt: skip
    if any(name.lower() == "kinesis.maxfetchrecordspershard" for name in texts):
        return options
    return replace(options, max_records_per_shard=None)


def parse_sink_options(texts: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a sink. Raises InvalidOption.

    Spark's own options of a streaming write (`checkpointLocation`, `path`, and queryName(..)) are ignored.
    """
    ours = {name: text for name, text in texts.items() if name.lower() not in _OF_SPARK}
    return SinkOptions(**_values(ours, "sink", SINK))


_OF_SPARK = frozenset({"checkpointlocation", "path", "queryname"})


def _values(texts: Mapping[str, str], role: str, table: Sequence[Option]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    known = {option.name.lower(): option for option in table}
    for name, text in texts.items():
        option = known.get(name.lower())
        if option is None:
            raise InvalidOption(_unknown(name, role, table))
        value = _value(option, text.strip(), role)
        if option.field:
            values[option.field] = value
    if not values.get("stream"):
        raise InvalidOption(f"The kinesis {role} needs the option kinesis.streamName.")
    if ("access_key_id" in values) != ("secret_key" in values):
        raise InvalidOption("kinesis.awsAccessKeyId and kinesis.awsSecretKey go together.")
    region = values.pop("kinesis_region", None) or region_of(values.get("endpoint_url", ""))
    return values | {"region": region} if region else values


def _value(option: Option, text: str, role: str) -> Any:
    if option.kind == "refused":
        raise InvalidOption(f"The kinesis {role} does not take {option.name}: {option.meaning}.")
    if option.kind == "no effect":
        log.warning("Option %s has no effect: %s.", option.name, option.meaning)
    try:
        return option.parse(text)
    except ValueError as error:
        raise InvalidOption(f"Option {option.name} has the value {text!r}: {error}.") from None


def _unknown(name: str, role: str, table: Sequence[Option]) -> str:
    names = {option.name.lower(): option.name for option in table if option.kind == "used"}
    near = get_close_matches(name.lower(), names, n=1)
    bare = [full for low, full in names.items() if low.endswith(f".{name.lower()}")]
    nearest = bare[0] if bare else names[near[0]] if near else None
    hint = f" Is {nearest} meant?" if nearest else ""
    listed = ", ".join(names.values())
    return f"The kinesis {role} has no option {name!r}.{hint} It has: {listed}."
