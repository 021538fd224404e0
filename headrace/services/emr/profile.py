"""How the gateway recognizes requests to EMR."""

from headrace.aws.protocols.service import Profile

PROFILE = Profile(signing_scopes=("elasticmapreduce",), target_prefix="ElasticMapReduce")
