"""Runs moto in process: it serves all services that headrace does not own (IAM, STS, SSM, SQS, SNS, Glue, ...)."""

from headrace.fallback.moto_services import MotoServices
from headrace.fallback.services.bounds import keep_log_groups_within

__all__ = ["MotoServices", "keep_log_groups_within"]
