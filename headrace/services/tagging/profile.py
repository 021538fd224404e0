"""How the gateway recognizes requests to the tagging API."""

from headrace.aws.protocols.service import Profile

PROFILE = Profile(signing_scopes=("tagging",), target_prefix="ResourceGroupsTaggingAPI_20170126")
