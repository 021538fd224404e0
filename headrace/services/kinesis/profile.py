"""How requests address Kinesis, and which errors it returns for injected faults."""

from headrace.aws.calls.fault_errors import FaultErrors
from headrace.aws.protocols.service import Profile

_THROTTLED = (
    "ProvisionedThroughputExceededException",
    "Rate exceeded for shard {shard} in stream {stream} under account {account}.",
    400,
)

# The operations on the records of queues. Their answers wait for the round that stores the deliveries; no thread waits.
QUEUE_DATA = (
    "ReceiveQueueRecords",
    "ReceiveDeadLetterQueueRecords",
    "AcknowledgeQueueRecords",
    "AcknowledgeDeadLetterQueueRecords",
    "UpdateQueueRecordsVisibility",
    "UpdateDeadLetterQueueRecordsVisibility",
    "RestoreDeadLetterQueueRecords",
)

PROFILE = Profile(
    target_prefix="Kinesis_20131202",
    exposed_headers="x-amzn-RequestId,x-amzn-ErrorType,x-amz-request-id,x-amz-id-2,x-amzn-ErrorMessage,Date",
    fault_errors=FaultErrors(
        throttle=("LimitExceededException", "Rate exceeded.", 400),
        throttled_actions={
            **dict.fromkeys(
                ("PutRecord", "PutRecords", "GetRecords", "GetShardIterator"), _THROTTLED
            ),
            **dict.fromkeys(QUEUE_DATA, ("ThrottlingException", "Rate exceeded.", 400)),
        },
        callers_errors_are_400=True,
    ),
)
