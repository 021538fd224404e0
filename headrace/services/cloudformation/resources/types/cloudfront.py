"""CloudFront's distributions and access identities."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Values,
    declare_sources,
)

_ID = {"Id": "@id"}


# Lists that the API wraps in an object with their length.
_COUNTED = (
    "Aliases",
    "AllowedMethods",
    "CacheBehaviors",
    "CachedMethods",
    "CustomErrorResponses",
    "FunctionAssociations",
    "Headers",
    "Items",
    "LambdaFunctionAssociations",
    "OriginGroups",
    "Origins",
    "OriginCustomHeaders",
    "OriginSSLProtocols",
    "Locations",
    "QueryStringCacheKeys",
    "WhitelistedNames",
    "TrustedKeyGroups",
    "TrustedSigners",
)


def _count_lists(value: Any) -> Any:
    """Return a distribution's configuration with its lists in the API's form."""
    if isinstance(value, list):
        return [_count_lists(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    counted: dict[str, Any] = {}
    for name, item in value.items():  # pyright: ignore[reportUnknownVariableType]
        key, inner = str(name), _count_lists(item)  # pyright: ignore[reportUnknownArgumentType]
        if key in _COUNTED and isinstance(inner, list):
            counted[key] = {"Quantity": len(inner), "Items": inner}  # pyright: ignore[reportUnknownArgumentType]
        else:
            counted[key] = inner
    return counted


def _methods(behaviour: dict[str, Any]) -> dict[str, Any]:
    """Return a cache behaviour with its cached methods inside the allowed ones, as in the API."""
    settings = dict(behaviour)
    cached = settings.pop("CachedMethods", None)
    if "AllowedMethods" in settings and cached is not None:
        settings["AllowedMethods"] = {**settings["AllowedMethods"], "CachedMethods": cached}
    settings.setdefault("TargetOriginId", "")
    return settings


@declare_sources("DistributionConfig")
def _distribution(values: Values) -> dict[str, Any]:
    config: dict[str, Any] = _count_lists(values.get("DistributionConfig"))
    config["DefaultCacheBehavior"] = _methods(config.get("DefaultCacheBehavior") or {})
    behaviours = config.get("CacheBehaviors")
    if behaviours:
        behaviours["Items"] = [_methods(behaviour) for behaviour in behaviours["Items"]]
    config.setdefault("CallerReference", f"{values.context.stack_name}-{values.context.logical_id}")
    config.setdefault("Comment", "")
    return config


def _etag_of(operation: str) -> ComputedProperty:
    """Return the ETag that an update or deletion must give."""
    return ComputedProperty(
        (),
        lambda values: values.context.call("cloudfront", operation, {"Id": values.id})["ETag"],
    )


def _add_tags(values: Values) -> dict[str, Any]:
    tags = [{"Key": key, "Value": value} for key, value in values.tags.items()]
    return {"DistributionConfig": _distribution(values), "Tags": {"Items": tags}}


@declare_sources("FunctionCode")
def _code(values: Values) -> bytes:
    return str(values.get("FunctionCode")).encode()


def _function_name(values: Values) -> str:
    return values.last


DECLARED = [
    DeclaredType(
        "AWS::CloudFront::Distribution",
        "cloudfront",
        create=[
            Call(
                "CreateDistributionWithTags",
                {
                    "DistributionConfigWithTags": ComputedProperty(
                        ("DistributionConfig", "Tags"), _add_tags
                    )
                },
                only=(),
                tagged=False,
            )
        ],
        id="@answer.Distribution.Id",
        read=Call("GetDistribution", _ID),
        update=[
            Call(
                "UpdateDistribution",
                {
                    **_ID,
                    "IfMatch": _etag_of("GetDistribution"),
                    "DistributionConfig": _distribution,
                },
            )
        ],
        delete=[Call("DeleteDistribution", {**_ID, "IfMatch": "@answer.ETag"})],
        attributes={"DomainName": "@answer.Distribution.DomainName", "Id": "@id"},
    ),
    DeclaredType(
        "AWS::CloudFront::OriginAccessControl",
        "cloudfront",
        create=[Call("CreateOriginAccessControl")],
        id="@answer.OriginAccessControl.Id",
        read=Call("GetOriginAccessControl", _ID),
        update=[Call("UpdateOriginAccessControl", _ID)],
        delete=[Call("DeleteOriginAccessControl", _ID)],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::CloudFront::Function",
        "cloudfront",
        create=[Call("CreateFunction", {"FunctionCode": _code})],
        id="@answer.FunctionSummary.FunctionMetadata.FunctionARN",
        read=Call("DescribeFunction", {"Name": _function_name}),
        delete=[Call("DeleteFunction", {"Name": _function_name, "IfMatch": "@answer.ETag"})],
        name="Name",
        attributes={
            "FunctionARN": "@id",
            "FunctionMetadata.FunctionARN": "@id",
            "Stage": "@answer.FunctionSummary.FunctionMetadata.Stage",
        },
    ),
    DeclaredType(
        "AWS::CloudFront::PublicKey",
        "cloudfront",
        create=[Call("CreatePublicKey")],
        id="@answer.PublicKey.Id",
        read=Call("GetPublicKey", _ID),
        delete=[Call("DeletePublicKey", {**_ID, "IfMatch": _etag_of("GetPublicKey")})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::CloudFront::KeyGroup",
        "cloudfront",
        create=[Call("CreateKeyGroup")],
        id="@answer.KeyGroup.Id",
        read=Call("GetKeyGroup", _ID),
        delete=[Call("DeleteKeyGroup", {**_ID, "IfMatch": _etag_of("GetKeyGroup")})],
        attributes={"Id": "@id"},
    ),
]
