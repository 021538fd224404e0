"""How requests name those of moto's services whose names differ from botocore's, and their faults on demand."""

from collections.abc import Mapping

from headrace.aws.calls.errors import FaultErrors
from headrace.aws.protocols.service import Profile

PROFILES: Mapping[str, Profile] = {
    "cloudcontrol": Profile(signing_scopes=("cloudcontrolapi",)),
    # Users of pools and identities sign nothing.
    "cognito-identity": Profile(target_prefix="AWSCognitoIdentityService"),
    "cognito-idp": Profile(target_prefix="AWSCognitoIdentityProviderService"),
    "cloudwatch": Profile(signing_scopes=("monitoring",)),
    "dynamodb": Profile(
        fault_errors=FaultErrors(
            throttle=(
                "ProvisionedThroughputExceededException",
                "The level of configured provisioned throughput for the table was exceeded.",
                400,
            ),
            error=("InternalServerError", "Internal server error", 500),
            callers_errors_are_400=True,
        )
    ),
    "iam": Profile(query_version="2010-05-08"),
    "redshift": Profile(signing_scopes=("redshift",), query_version="2012-12-01"),
    "ses": Profile(signing_scopes=("email",)),
    "sns": Profile(query_version="2010-03-31"),
    "sqs": Profile(query_version="2012-11-05"),
    "stepfunctions": Profile(signing_scopes=("states",)),
    "sts": Profile(query_version="2011-06-15"),
}
