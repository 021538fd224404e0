"""How the gateway recognizes requests to Cloud Control."""

from headrace.aws.service import Profile

PROFILE = Profile(signing_scopes=("cloudcontrolapi",), target_prefix="CloudApiService")
