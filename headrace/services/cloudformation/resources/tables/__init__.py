"""The declared resource types, a file for each group of services."""

from headrace.services.cloudformation.resources.declaration import Declared
from headrace.services.cloudformation.resources.tables import (
    analytics,
    apigateway,
    apigatewayv2,
    cognito,
    compute,
    databases,
    ec2,
    edge,
    events,
    flink,
    glue,
    identity,
    iot,
    logs,
    operations,
    secrets,
    stepfunctions,
    storage,
    web,
)

_MODULES = (
    analytics,
    apigateway,
    apigatewayv2,
    cognito,
    compute,
    databases,
    ec2,
    edge,
    events,
    flink,
    glue,
    identity,
    iot,
    logs,
    operations,
    secrets,
    stepfunctions,
    storage,
    web,
)
DECLARED: list[Declared] = [declared for module in _MODULES for declared in module.TYPES]
