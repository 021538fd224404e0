"""IncreaseStreamRetentionPeriod and DecreaseStreamRetentionPeriod."""

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    DecreaseStreamRetentionPeriodInput,
    IncreaseStreamRetentionPeriodInput,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import MAX_RETENTION_HOURS, MIN_RETENTION_HOURS


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
