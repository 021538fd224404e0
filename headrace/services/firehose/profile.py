"""How the gateway recognizes requests to Firehose, and Firehose's answers to injected faults."""

from headrace.aws.calls.fault_errors import FaultErrors
from headrace.aws.protocols.service import Profile

PROFILE = Profile(
    target_prefix="Firehose_20150804",
    fault_errors=FaultErrors(
        throttle=("LimitExceededException", "Rate exceeded.", 400),
        throttled_actions=dict.fromkeys(
            ("PutRecord", "PutRecordBatch"), ("ServiceUnavailableException", "Slow down.", 503)
        ),
        callers_errors_are_400=True,
    ),
)
