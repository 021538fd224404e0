"""SageMaker: models, endpoint configurations, endpoints."""

from __future__ import annotations

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
)


def _tag(service: str, kind: str, member: str, *calls: str) -> tuple[str, str, str, Source]:
    """Return the calls for the tags of a resource whose ARN ends with its name."""

    def arn(values: Values) -> str:
        scope = values.context.region, values.context.account
        return make_arn(service, *scope, f"{kind}/{values.id}")

    add, remove = calls
    return add, remove, member, arn


_SAGEMAKER = ("ResourceArn", "AddTags", "DeleteTags")


DECLARED = [
    DeclaredType(
        "AWS::SageMaker::Model",
        "sagemaker",
        create=[Call("CreateModel")],
        id="ModelName",
        read=Call("DescribeModel", {"ModelName": "@id"}),
        tag=_tag("sagemaker", "model", *_SAGEMAKER),
        delete=[Call("DeleteModel", {"ModelName": "@id"})],
        name="ModelName",
        name_length=63,
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::SageMaker::EndpointConfig",
        "sagemaker",
        create=[Call("CreateEndpointConfig")],
        id="EndpointConfigName",
        read=Call("DescribeEndpointConfig", {"EndpointConfigName": "@id"}),
        tag=_tag("sagemaker", "endpoint-config", *_SAGEMAKER),
        delete=[Call("DeleteEndpointConfig", {"EndpointConfigName": "@id"})],
        name="EndpointConfigName",
        name_length=63,
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::SageMaker::Endpoint",
        "sagemaker",
        create=[Call("CreateEndpoint")],
        id="EndpointName",
        read=Call("DescribeEndpoint", {"EndpointName": "@id"}),
        update=[Call("UpdateEndpoint", {"EndpointName": "@id"}, only=("EndpointConfigName",))],
        tag=_tag("sagemaker", "endpoint", *_SAGEMAKER),
        delete=[Call("DeleteEndpoint", {"EndpointName": "@id"})],
        name="EndpointName",
        name_length=63,
        attributes={"Id": "@id"},
    ),
]
