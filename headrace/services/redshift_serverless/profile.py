"""How requests name Redshift Serverless."""

from headrace.aws.service import Profile

PROFILE = Profile(target_prefix="RedshiftServerless")
