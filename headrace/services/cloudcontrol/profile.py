"""How the gateway recognizes requests to Cloud Control."""

from headrace.aws.protocols.service import Profile

PROFILE = Profile(signing_scopes=("cloudcontrolapi",), target_prefix="CloudApiService")
