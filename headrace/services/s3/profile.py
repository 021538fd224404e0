"""How requests name S3, and what it answers to faults on demand."""

from headrace.aws.fault_errors import FaultErrors
from headrace.aws.service import Profile

PROFILE = Profile(
    signing_scopes=("s3express",),
    takes_the_rest=True,
    # Browsers ask what they may do before they sign anything.
    unsigned_methods=frozenset({"OPTIONS"}),
    fault_errors=FaultErrors(
        throttle=("SlowDown", "Please reduce your request rate.", 503),
        error=("InternalError", "We encountered an internal error. Please try again.", 500),
    ),
)
