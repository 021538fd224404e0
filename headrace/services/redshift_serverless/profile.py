"""How the gateway recognizes requests to Redshift Serverless."""

from headrace.aws.protocols.service import Profile

PROFILE = Profile(target_prefix="RedshiftServerless")
