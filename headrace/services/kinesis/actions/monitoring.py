"""EnableEnhancedMonitoring and DisableEnhancedMonitoring."""

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    DisableEnhancedMonitoringInput,
    EnableEnhancedMonitoringInput,
    EnhancedMonitoringOutput,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.state import Stream

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
            kinesis, stream, {*stream.enhanced_metrics, *_named(request["ShardLevelMetrics"])}
        )


@operation("DisableEnhancedMonitoring")
def disable_enhanced_monitoring(
    kinesis: Kinesis, call: Call, request: DisableEnhancedMonitoringInput
) -> EnhancedMonitoringOutput:
    """Turn off shard-level metrics. Source: API_DisableEnhancedMonitoring."""
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        return _change(
            kinesis, stream, set(stream.enhanced_metrics) - _named(request["ShardLevelMetrics"])
        )


def _named(metrics: list[str]) -> set[str]:
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
