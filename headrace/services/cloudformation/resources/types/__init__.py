"""The resource types, a file for each AWS namespace.

`TYPES` are code, `READINGS` say how those are read back, `DECLARED` are data.
"""

from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.resources.declaration import DeclaredType
from headrace.services.cloudformation.resources.reading import ReadingRules
from headrace.services.cloudformation.resources.types import (
    analytics,
    apigateway,
    apigatewayv2,
    application_integration,
    cloudformation,
    cloudformation_stacks,
    cloudwatch,
    containers,
    content_delivery,
    databases,
    deliveries,
    dynamodb,
    ec2,
    ec2_networks,
    emr,
    emr_instances,
    events,
    glue,
    iam,
    identities,
    kinesis,
    lambda_,
    lambda_access,
    logs,
    management,
    s3,
    scaling,
    security,
    sns,
    ssm,
    storage,
    streaming,
)

_CODED = (
    application_integration,
    cloudformation,
    cloudformation_stacks,
    cloudwatch,
    deliveries,
    dynamodb,
    emr,
    emr_instances,
    events,
    glue,
    iam,
    kinesis,
    lambda_,
    lambda_access,
    logs,
    s3,
    security,
    sns,
    ssm,
)
_READ = (
    application_integration,
    cloudwatch,
    deliveries,
    dynamodb,
    events,
    glue,
    iam,
    kinesis,
    lambda_,
    logs,
    s3,
    security,
    sns,
    ssm,
)
_DECLARED = (
    analytics,
    apigateway,
    apigatewayv2,
    application_integration,
    cloudwatch,
    containers,
    content_delivery,
    databases,
    ec2,
    ec2_networks,
    events,
    glue,
    iam,
    identities,
    lambda_access,
    logs,
    management,
    scaling,
    security,
    sns,
    ssm,
    storage,
    streaming,
)
TYPES: list[ResourceType] = [kind for module in _CODED for kind in module.TYPES]
DECLARED: list[DeclaredType] = [declared for module in _DECLARED for declared in module.DECLARED]
READINGS: dict[str, ReadingRules] = {
    rules.type: rules for module in _READ for rules in module.READINGS
}
