"""How the gateway recognizes requests to Redshift Serverless."""

from headrace.aws.service import Profile

PROFILE = Profile(target_prefix="RedshiftServerless")
