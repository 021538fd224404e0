"""The declared resource types, a file for each group of services."""

from headrace.services.cloudformation.resources.declaration import DeclaredType
from headrace.services.cloudformation.resources.tables import events, glue, logs
from headrace.services.cloudformation.resources.types import (
    apigateway,
    apigatewayv2,
    appconfig,
    batch,
    cloudfront,
    codedeploy,
    cognito,
    ec2,
    ec2_security_groups,
    efs,
    elasticloadbalancingv2,
    iam_groups,
    iot,
    kinesisanalyticsv2,
    rds,
    redshift,
    secretsmanager,
    stepfunctions,
    wafv2,
)

_MODULES = (
    redshift,
    apigateway,
    apigatewayv2,
    elasticloadbalancingv2,
    cognito,
    batch,
    rds,
    codedeploy,
    ec2,
    cloudfront,
    events,
    kinesisanalyticsv2,
    glue,
    iam_groups,
    iot,
    logs,
    appconfig,
    secretsmanager,
    ec2_security_groups,
    stepfunctions,
    efs,
    wafv2,
)
DECLARED: list[DeclaredType] = [declared for module in _MODULES for declared in module.TYPES]
