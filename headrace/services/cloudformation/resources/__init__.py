"""The resource types, a file for each service: a type turns a resource's properties into the service's API calls.

A template with a type that is not here is refused before any of its resources is made.
"""

from headrace.services.cloudformation.resources import (
    cloudwatch,
    dynamodb,
    ecr,
    emr,
    emr_instances,
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
    emr_instances,
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


def resource_type(name: str) -> ResourceType | None:
    """Return the resource type of that name, or None when headrace does not support it."""
    if name.startswith("Custom::") or name == "AWS::CloudFormation::CustomResource":
        return custom_resource_type(name)
    return TYPES.get(name)
