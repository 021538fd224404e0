"""How requests name the Redshift Data API."""

from headrace.aws.service import Profile

PROFILE = Profile(target_prefix="RedshiftData")
