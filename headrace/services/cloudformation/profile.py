"""How requests name CloudFormation, and what it answers to faults on demand."""

from headrace.aws.calls.fault_errors import FaultErrors
from headrace.aws.protocols.service import Profile

PROFILE = Profile(
    query_version="2010-05-15",
    fault_errors=FaultErrors(throttle=("Throttling", "Rate exceeded", 400)),
)
