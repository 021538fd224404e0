"""How the gateway recognizes requests to EMR Serverless: by the service name in their signatures alone."""

from headrace.aws.protocols.service import Profile

PROFILE = Profile()
