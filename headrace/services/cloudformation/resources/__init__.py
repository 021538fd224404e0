"""The resource types, a file a service: each maps properties to the service's own API calls.

A type that is not here is refused before anything is made.
"""

from headrace.services.cloudformation.resources import (
    cloudwatch,
    custom,
    dynamodb,
    ecr,
    emr,
    emr_serverless,
    events,
    firehose,
    glue,
    iam,
    kinesis,
    kms,
    lambda_,
    lambda_access,
    logs,
    metadata,
    s3,
    sns,
    sqs,
    ssm,
)
from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.resources.custom import custom_resource_type

_MODULES = (
    cloudwatch,
    dynamodb,
    ecr,
    emr,
    emr_serverless,
    events,
    firehose,
    glue,
    iam,
    kinesis,
    kms,
    lambda_,
    lambda_access,
    logs,
    metadata,
    s3,
    sns,
    sqs,
    ssm,
)
TYPES: dict[str, ResourceType] = {kind.name: kind for module in _MODULES for kind in module.TYPES}

__all__ = ["TYPES", "custom", "custom_resource_type"]
