"""The operations that change one setting of a stream.

They are its distribution of records, warm throughput, encryption, enhanced monitoring, retention, record size and mode.
CreateStream shares the checks of a strategy and of a warm throughput. Encryption sets what responses show; records on
disk are not encrypted.
"""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError, validation_error
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    DecreaseStreamRetentionPeriodInput,
    DisableEnhancedMonitoringInput,
    EnableEnhancedMonitoringInput,
    EnhancedMonitoringOutput,
    IncreaseStreamRetentionPeriodInput,
    StartStreamEncryptionInput,
    StopStreamEncryptionInput,
    UpdateMaxRecordSizeInput,
    UpdateStreamModeInput,
    UpdateStreamRecordDistributionStrategyInput,
    UpdateStreamWarmThroughputInput,
    UpdateStreamWarmThroughputOutput,
    WarmThroughputObject,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import (
    ENCRYPTION_CHANGES_PER_DAY,
    MAX_RETENTION_HOURS,
    MIN_RETENTION_HOURS,
    MODE_CHANGES_PER_DAY,
    ON_DEMAND_SHARDS,
    WARM_THROUGHPUT_MIBPS,
    in_use,
    invalid_argument,
    limit_exceeded,
)
from headrace.services.kinesis.resharding import (
    check_on_demand_quota,
    check_shard_quota,
    plan_equal_ranges,
    reshard,
    use_daily,
)
from headrace.services.kinesis.state import Distribution, Stream


@operation("UpdateMaxRecordSize")
def update_max_record_size(kinesis: Kinesis, call: Call, request: UpdateMaxRecordSizeInput) -> None:
    """Set how large a new record may be, 1 to 10 MiB. Source: API_UpdateMaxRecordSize."""
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        stream.max_record_bytes = request["MaxRecordSizeInKiB"] * 1024
        kinesis.update(stream, call.now_ms)


@operation("IncreaseStreamRetentionPeriod")
def increase_stream_retention_period(
    kinesis: Kinesis, call: Call, request: IncreaseStreamRetentionPeriodInput
) -> None:
    """Keep records longer. Source: API_IncreaseStreamRetentionPeriod."""
    hours = request["RetentionPeriodHours"]
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        _check_range(hours)
        if hours < stream.retention_hours:
            raise invalid_argument(
                f"Requested retention period ({hours} hours) for stream {stream.name} can not be shorter than"
                f" existing retention period ({stream.retention_hours} hours)."
                " Use DecreaseRetentionPeriod API."
            )
        stream.retention_hours = hours
        kinesis.update(stream, call.now_ms)


@operation("DecreaseStreamRetentionPeriod")
def decrease_stream_retention_period(
    kinesis: Kinesis, call: Call, request: DecreaseStreamRetentionPeriodInput
) -> None:
    """Keep records for less time. Source: API_DecreaseStreamRetentionPeriod."""
    hours = request["RetentionPeriodHours"]
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        _check_range(hours)
        if hours > stream.retention_hours:
            raise invalid_argument(
                f"Requested retention period ({hours} hours) for stream {stream.name} can not be longer than"
                f" existing retention period ({stream.retention_hours} hours)."
                " Use IncreaseRetentionPeriod API."
            )
        stream.retention_hours = hours
        kinesis.update(stream, call.now_ms)


def _check_range(hours: int) -> None:
    if hours < MIN_RETENTION_HOURS:
        raise invalid_argument(
            f"Minimum allowed retention period is {MIN_RETENTION_HOURS} hours."
            f" Requested retention period ({hours} hours) is too short."
        )
    if hours > MAX_RETENTION_HOURS:
        raise invalid_argument(
            f"Maximum allowed retention period is {MAX_RETENTION_HOURS} hours."
            f" Requested retention period ({hours} hours) is too long."
        )


METRICS = [
    "IncomingBytes",
    "IncomingRecords",
    "OutgoingBytes",
    "OutgoingRecords",
    "WriteProvisionedThroughputExceeded",
    "ReadProvisionedThroughputExceeded",
    "IteratorAgeMilliseconds",
]


@operation("EnableEnhancedMonitoring")
def enable_enhanced_monitoring(
    kinesis: Kinesis, call: Call, request: EnableEnhancedMonitoringInput
) -> EnhancedMonitoringOutput:
    """Turn on shard-level metrics. Source: API_EnableEnhancedMonitoring."""
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        return _change(
            kinesis,
            stream,
            {*stream.enhanced_metrics, *_expand_metrics(request["ShardLevelMetrics"])},
        )


@operation("DisableEnhancedMonitoring")
def disable_enhanced_monitoring(
    kinesis: Kinesis, call: Call, request: DisableEnhancedMonitoringInput
) -> EnhancedMonitoringOutput:
    """Turn off shard-level metrics. Source: API_DisableEnhancedMonitoring."""
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        return _change(
            kinesis,
            stream,
            set(stream.enhanced_metrics) - _expand_metrics(request["ShardLevelMetrics"]),
        )


def _expand_metrics(metrics: list[str]) -> set[str]:
    return set(METRICS) if "ALL" in metrics else set(metrics)


def _change(kinesis: Kinesis, stream: Stream, desired: set[str]) -> EnhancedMonitoringOutput:
    before = list(stream.enhanced_metrics)
    stream.enhanced_metrics = [metric for metric in METRICS if metric in desired]
    kinesis.save(stream)
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "CurrentShardLevelMetrics": before,
        "DesiredShardLevelMetrics": list(stream.enhanced_metrics),
    }


@operation("StartStreamEncryption")
def start_stream_encryption(
    kinesis: Kinesis, call: Call, request: StartStreamEncryptionInput
) -> None:
    """Mark a stream as encrypted with a KMS key that can be used. Source: API_StartStreamEncryption."""
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        _check_type(request["EncryptionType"])
        kinesis.registry.keys.usable(request["KeyId"], call.account, call.region)
        use_daily(stream, "StartStreamEncryption", ENCRYPTION_CHANGES_PER_DAY, call.now_ms)
        stream.encryption_type, stream.key_id = request["EncryptionType"], request["KeyId"]
        kinesis.update(stream, call.now_ms)


@operation("StopStreamEncryption")
def stop_stream_encryption(
    kinesis: Kinesis, call: Call, request: StopStreamEncryptionInput
) -> None:
    """Mark a stream as not encrypted. Source: API_StopStreamEncryption."""
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        _check_type(request["EncryptionType"])
        use_daily(stream, "StopStreamEncryption", ENCRYPTION_CHANGES_PER_DAY, call.now_ms)
        stream.encryption_type, stream.key_id = "NONE", None
        kinesis.update(stream, call.now_ms)


def _check_type(encryption_type: str) -> None:
    if encryption_type != "KMS":
        raise invalid_argument(f"EncryptionType {encryption_type} is not valid: it must be KMS.")


@operation("UpdateStreamWarmThroughput")
def update_stream_warm_throughput(
    kinesis: Kinesis, call: Call, request: UpdateStreamWarmThroughputInput
) -> UpdateStreamWarmThroughputOutput:
    """Scale an on-demand stream before its traffic rises. Source: API_UpdateStreamWarmThroughput."""
    target = request["WarmThroughputMiBps"]
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        check_warm_throughput(kinesis, call, stream.mode, target)
        scale(kinesis, stream, target, call.now_ms)
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "WarmThroughput": warm_throughput(stream),
    }


def check_warm_throughput(kinesis: Kinesis, call: Call, mode: str, target_mibps: int) -> None:
    """Raise AwsError when a stream of this mode, or the account, may not have this warm throughput."""
    if mode != "ON_DEMAND":
        raise invalid_argument(
            "WarmThroughputMiBps is not supported for streams in provisioned mode."
        )
    if not kinesis.account_settings.is_committed(call.account, call.region, call.now_ms):
        raise validation_error(
            "Warm throughput is supported only in accounts that have MinimumThroughputBillingCommitment enabled."
        )
    if target_mibps > WARM_THROUGHPUT_MIBPS:
        raise limit_exceeded(
            f"WarmThroughputMiBps {target_mibps} is more than the limit of {WARM_THROUGHPUT_MIBPS}."
        )


def scale(kinesis: Kinesis, stream: Stream, target_mibps: int, now_ms: int) -> None:
    """Split an on-demand stream until it has the shards for a warm throughput. The caller holds the service's lock."""
    shards = warm_shards(target_mibps)
    stream.warm_throughput_mibps = target_mibps
    if shards == len(stream.open_shards):
        kinesis.update(stream, now_ms)
        return
    ranges = [(shard.starting_hash_key, shard.ending_hash_key) for shard in stream.open_shards]
    reshard(kinesis, stream, plan_equal_ranges(ranges, shards), now_ms)


def warm_shards(target_mibps: int) -> int:
    """Return how many shards a warm throughput needs: one for each MiB/s, and at least as many as a new stream has."""
    return max(ON_DEMAND_SHARDS, target_mibps)


def warm_throughput(stream: Stream) -> WarmThroughputObject:
    """Return AWS's WarmThroughputObject."""
    return {
        "TargetMiBps": stream.warm_throughput_mibps or 0,
        "CurrentMiBps": len(stream.open_shards),
    }


@operation("UpdateStreamRecordDistributionStrategy")
def update_stream_record_distribution_strategy(
    kinesis: Kinesis, call: Call, request: UpdateStreamRecordDistributionStrategyInput
) -> None:
    """Choose the shards of new records by partition key, or spread the records evenly.

    Source: API_UpdateStreamRecordDistributionStrategy.
    """
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        strategy = distribution_of(stream.mode, request["RecordDistributionStrategy"])
        stream.distribution = strategy
        kinesis.update(stream, call.now_ms)


def distribution_of(mode: str, asked: str | None) -> Distribution:
    """Return the requested strategy, if a stream of this mode may have it. Raises InvalidArgumentException."""
    if asked != "AUTO":
        return "USER_PARTITION_KEY"
    if mode != "ON_DEMAND":
        raise invalid_argument(
            "The record distribution strategy AUTO is not supported for streams in provisioned mode."
        )
    return "AUTO"


@operation("UpdateStreamMode")
def update_stream_mode(kinesis: Kinesis, call: Call, request: UpdateStreamModeInput) -> None:
    """Switch between provisioned and on-demand; the shards stay. Source: API_UpdateStreamMode."""
    on_demand = request["StreamModeDetails"]["StreamMode"] == "ON_DEMAND"
    warm = request.get("WarmThroughputMiBps")
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        if warm is not None:
            check_warm_throughput(kinesis, call, request["StreamModeDetails"]["StreamMode"], warm)
        if on_demand != (stream.mode == "ON_DEMAND"):
            if on_demand:
                check_on_demand_quota(kinesis, call)
            elif kinesis.queues.of_stream(stream, call.now_ms):
                raise _need_on_demand(stream, "queues")
            elif kinesis.channels.of_stream(stream, call.now_ms):
                raise _need_on_demand(stream, "channels")
            else:
                check_shard_quota(kinesis, call, len(stream.open_shards))
            use_daily(stream, "UpdateStreamMode", MODE_CHANGES_PER_DAY, call.now_ms)
        stream.mode = "ON_DEMAND" if on_demand else "PROVISIONED"
        if not on_demand:
            stream.warm_throughput_mibps = None
            stream.distribution = "USER_PARTITION_KEY"
        if warm is None:
            kinesis.update(stream, call.now_ms)
        else:
            scale(kinesis, stream, warm, call.now_ms)


def _need_on_demand(stream: Stream, what: str) -> AwsError:
    """Code and sentence are assumed."""
    return in_use(
        f"Stream {stream.name} under account {stream.account} has {what}, which need on-demand mode. Delete them first."
    )
