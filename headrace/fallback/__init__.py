"""moto, in process: the whole services that headrace does not own (IAM, STS, SSM, SQS, SNS, Glue, ...)."""

from headrace.fallback.moto_services import MotoServices

__all__ = ["MotoServices"]
