"""How the gateway recognizes requests to the Redshift Data API."""

from headrace.aws.protocols.service import Profile

PROFILE = Profile(target_prefix="RedshiftData")
