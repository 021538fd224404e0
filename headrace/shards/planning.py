"""Plans a pipeline for a measured load: shards or on-demand, readers, Firehose, Lambda, EMR, and what each costs.

Costs follow AWS's rounding of each record, from the sizes that were measured; see headrace/shards/prices.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.shards.prices import (
    Prices,
    advantage_cost,
    channel_cost,
    fan_out_cost,
    firehose_cost,
    lambda_cost,
    on_demand_cost_of,
    provisioned_cost_of,
    queue_cost,
)

MONTH_HOURS = 730
_SHARD_BYTES_S, _SHARD_RECORDS_S, _SHARD_READ_BYTES_S = 1 << 20, 1000, 2 << 20
# Free to peak by half, since a load of the past is a guess at the next.
_HEADROOM = 1.5
# On demand takes twice the peak of the last 30 days (documented: how-do-i-size-a-stream.html).
_ON_DEMAND_TIMES = 2
# A worker with 2 vCPUs reads and parses about this (assumed; measure your own job).
_EMR_BYTES_S_PER_CORE = 5 << 20
_BATCH, _QUEUE_BATCH = 100, 10


@dataclass(frozen=True, slots=True)
class Load:
    """A measured load.

    Attributes:
        record_bytes: a sample of the records' sizes, keys included.
        records_per_s, peak_records_per_s: on average, and in the busiest second.
        hottest_share: of the hottest key, from 0 to 1.
        readers: how many applications read everything.
        handler_ms, memory_mib: a Lambda function's time for a batch of 100, and its memory.
    """

    record_bytes: Sequence[int]
    records_per_s: float
    peak_records_per_s: float
    hottest_share: float = 0.0
    readers: int = 1
    handler_ms: float = 200.0
    memory_mib: int = 512

    @property
    def mean_bytes(self) -> float:
        """The mean size of a record."""
        return sum(self.record_bytes) / len(self.record_bytes)

    def times(self, factor: float) -> Load:
        """Return the load of `factor` times as many records of the same sizes and keys."""
        return replace(
            self,
            records_per_s=self.records_per_s * factor,
            peak_records_per_s=self.peak_records_per_s * factor,
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """A part of the plan: what it is, how large, dollars a month, and why."""

    what: str
    size: str
    dollars: float
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The mode of the stream that costs least, the others beside it, what reads it, and warnings."""

    modes: tuple[Choice, ...]
    readers: tuple[Choice, ...]
    warnings: tuple[str, ...]

    @property
    def mode(self) -> Choice:
        """The mode that costs least."""
        return min(self.modes, key=lambda choice: choice.dollars)


def plan(load: Load, prices: Prices) -> Plan:
    """Return the plan of a load for a month of 730 hours."""
    records = load.records_per_s * MONTH_HOURS * 3600
    peak_bytes_s = load.peak_records_per_s * load.mean_bytes
    shards = max(
        1,
        math.ceil(_HEADROOM * peak_bytes_s / _SHARD_BYTES_S),
        math.ceil(_HEADROOM * load.peak_records_per_s / _SHARD_RECORDS_S),
    )
    modes = (
        Choice(
            "provisioned",
            _count(shards, "shard"),
            provisioned_cost_of(prices, shards * MONTH_HOURS, records, load.record_bytes),
            f"the peak of {load.peak_records_per_s:,.0f} records/s, {peak_bytes_s / 1e6:.2f} MB/s, and half of it more",
        ),
        Choice(
            "on-demand standard",
            f"to {_ON_DEMAND_TIMES} times the highest peak of 30 days",
            on_demand_cost_of(prices, MONTH_HOURS, records, load.record_bytes, load.readers),
            "no shards to watch",
        ),
        Choice(
            "on-demand advantage",
            "the account's commitment is 25 MiB/s in and out",
            advantage_cost(prices, records, load.record_bytes, load.readers),
            "the commitment is billed also when less is used",
        ),
    )
    return Plan(
        modes, _readers(load, prices, records, shards, peak_bytes_s), tuple(_warnings(load, shards))
    )


def _readers(
    load: Load, prices: Prices, records: float, shards: int, peak_bytes_s: float
) -> tuple[Choice, ...]:
    invocations = load.peak_records_per_s / _BATCH
    busy = invocations * load.handler_ms / 1000
    factor = min(10, max(1, math.ceil(busy / shards)))
    cores = max(1, math.ceil(_HEADROOM * peak_bytes_s / _EMR_BYTES_S_PER_CORE))
    return (
        Choice(
            "Lambda",
            f"concurrency {shards * factor} ({_count(shards, 'shard')} x ParallelizationFactor {factor})",
            lambda_cost(prices, records / _BATCH, load.handler_ms, load.memory_mib),
            f"{busy:.1f} batches of {_BATCH} at once in the peak",
        ),
        Choice(
            "Firehose to S3",
            "1 delivery stream",
            firehose_cost(prices, records, load.record_bytes),
            "each record is billed as whole 5 KiB",
        ),
        Choice(
            "channel to S3",
            "1 channel",
            channel_cost(prices.channel_gb, records, load.record_bytes),
            "of on-demand streams alone; in the advantage mode"
            f" ${channel_cost(prices.advantage_channel_gb, records, load.record_bytes):,.2f}",
        ),
        Choice(
            "queue",
            _count(max(1, math.ceil(_HEADROOM * busy)), "consumer"),
            queue_cost(prices, records, _QUEUE_BATCH),
            f"price assumed, as SQS's; receives and acknowledgements of {_QUEUE_BATCH}",
        ),
        Choice(
            "enhanced fan-out",
            f"{_count(load.readers, 'consumer')} x {_count(shards, 'shard')}",
            fan_out_cost(prices, shards * MONTH_HOURS, records, load.mean_bytes, load.readers),
            f"{_SHARD_READ_BYTES_S >> 20} MiB/s for each consumer and shard; of provisioned shards",
        ),
        Choice(
            "EMR (Spark)",
            f"{_count(cores, 'core')}, {max(2 * cores, shards)} partitions",
            cores * MONTH_HOURS * prices.emr_core_hour,
            "assumed: 5 MiB/s a core; measure your own job",
        ),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _warnings(load: Load, shards: int) -> list[str]:
    warnings: list[str] = []
    hot = load.hottest_share * load.peak_records_per_s
    if hot > _SHARD_RECORDS_S or hot * load.mean_bytes > _SHARD_BYTES_S:
        warnings.append(
            f"The hottest key has {load.hottest_share:.0%} of the records, more than a shard takes: salt it"
            " (headrace.client.Salt); neither more shards nor on-demand helps."
        )
    if load.readers > 2:
        warnings.append(
            f"{load.readers} readers share {_SHARD_READ_BYTES_S >> 20} MiB/s a shard: give each of them enhanced"
            " fan-out, which costs extra."
        )
    largest = max(load.record_bytes)
    if largest > 1 << 20:
        warnings.append(f"A record has {largest:,} bytes: raise the stream's MaxRecordSizeInKiB.")
    return warnings
