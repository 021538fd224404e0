"""How requests address S3, and which errors it returns for injected faults."""

from headrace.aws.calls.fault_errors import FaultErrors
from headrace.aws.protocols.service import Profile

PROFILE = Profile(
    signing_scopes=("s3express",),
    takes_the_rest=True,
    # Browsers send preflight requests (OPTIONS) without a signature.
    unsigned_methods=frozenset({"OPTIONS"}),
    fault_errors=FaultErrors(
        throttle=("SlowDown", "Please reduce your request rate.", 503),
        error=("InternalError", "We encountered an internal error. Please try again.", 500),
    ),
)
