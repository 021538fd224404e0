"""How requests address Lambda, and which errors it returns for injected faults."""

from headrace.aws.calls.errors import FaultErrors
from headrace.aws.protocols.service import Profile

PROFILE = Profile(
    paths=("/2015-03-31/", "/2018-10-31/", "/2017-03-31/", "/2026-07-09/"),
    exposed_headers=(
        "x-amzn-RequestId,x-amzn-ErrorType,x-amzn-ErrorMessage,Date,x-amz-log-result,x-amz-function-error"
    ),
    fault_errors=FaultErrors(
        throttle=("TooManyRequestsException", "Rate Exceeded.", 429),
        error=(
            "ServiceException",
            "An error occurred and the request cannot be processed.",
            500,
        ),
    ),
)
