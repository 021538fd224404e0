"""Finds botocore's model of a request: several services share a signing scope, or have another name in signatures."""

from __future__ import annotations

from botocore.exceptions import UnknownServiceError

from headrace.aws.calls.http import HttpRequest
from headrace.aws.calls.operation import service_model
from headrace.aws.protocols import codec_moto

# The name in the signature -> the models that it may stand for; the first one that has the request's operation is its.
_MODELS: dict[str, tuple[str, ...]] = {
    "aps": ("amp",),
    "aws-marketplace": (
        *("meteringmarketplace", "marketplace-entitlement", "marketplace-agreement"),
        *("marketplace-catalog", "marketplace-deployment"),
    ),
    "bedrock": (
        *("bedrock", "bedrock-runtime", "bedrock-agent", "bedrock-agent-runtime"),
        "bedrock-data-automation",
    ),
    "bedrock-agentcore": ("bedrock-agentcore", "bedrock-agentcore-control"),
    "cloudhsm": ("cloudhsmv2", "cloudhsm"),
    "connect-campaigns": ("connectcampaigns", "connectcampaignsv2"),
    "elasticfilesystem": ("efs",),
    "greengrass": ("greengrass", "greengrassv2"),
    "iotdata": ("iot-data",),
    "kinesisvideo": ("kinesisvideo", "kinesis-video-archived-media", "kinesis-video-signaling"),
    "lex": ("lex-models", "lexv2-models", "lex-runtime", "lexv2-runtime"),
    "mobiletargeting": ("pinpoint",),
    "personalize": ("personalize", "personalize-events", "personalize-runtime"),
    "resiliencehub": ("resiliencehub", "resiliencehubv2"),
    "s3-outposts": ("s3outposts",),
    "servicequotas": ("service-quotas",),
    "sso": ("sso-admin", "sso"),
    "timestream": ("timestream-write", "timestream-query"),
}


def model_of(service: str, request: HttpRequest) -> str:
    """Return the name of a request's model, by the name in its signature."""
    if service == "ses" and request.path.startswith("/v2/email/"):
        return "sesv2"
    if service == "apigateway" and request.path.startswith("/v2/"):
        return "apigatewayv2"
    if service == "elasticloadbalancing":
        return "elbv2" if b"Version=2015-12-01" in request.body else "elb"
    models = _MODELS.get(service)
    if models is None:
        return service
    return next((model for model in models if _has(model, request)), models[0])


def _has(model: str, request: HttpRequest) -> bool:
    try:
        if is_json(request):
            target = request.headers["x-amz-target"].rpartition(".")[2]
            return target in service_model(model).operation_names
        return bool(codec_moto.is_rest(model) and codec_moto.operation_name(model, request))
    except UnknownServiceError:  # an old botocore
        return False


def is_json(request: HttpRequest) -> bool:
    """Whether a request uses a JSON protocol with a target, or declares a JSON body."""
    return "x-amz-target" in request.headers
