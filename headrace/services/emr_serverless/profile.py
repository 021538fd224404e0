"""How requests name EMR Serverless: by its own name in their signatures, and in no other way."""

from headrace.aws.service import Profile

PROFILE = Profile()
