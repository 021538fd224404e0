"""The patch operations that bring API Gateway's resources to the template's state; its updates take nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from headrace.services.cloudformation.resources.declaration import (
    ComputedProperty,
    Values,
    declare_sources,
)


def patches_of(paths: Mapping[str, str]) -> ComputedProperty:
    """Return the patch operations that set properties to the template's values, by their paths in the API."""

    def patches(values: Values) -> list[dict[str, str]]:
        operations: list[dict[str, str]] = []
        for name, path in paths.items():
            if name not in values.changed:
                continue
            value = values.get(name)
            if isinstance(value, Mapping):
                for key, item in cast("Mapping[str, Any]", value).items():
                    operations.append(
                        {"op": "replace", "path": f"{path}/{key}", "value": _text(item)}
                    )
            else:
                operations.append({"op": "replace", "path": path, "value": _text(value)})
        return operations

    return ComputedProperty(tuple(paths), patches)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _remaining(values: Values, name: str, path: str) -> list[dict[str, str]]:
    """Return the patch operations that remove and add items of a list; `path` has a `{}` for the item's own path."""
    old, new = (cast("list[str]", one.get(name) or []) for one in (values.old, values.properties))
    patches: list[dict[str, str]] = []
    for verb, items in (
        ("remove", [item for item in old if item not in new]),
        ("add", [item for item in new if item not in old]),
    ):
        for item in items:
            path_of_item = path.format(item.replace("/", "~1"))
            patches.append({"op": verb, "path": path_of_item, "value": item})
    return patches


@declare_sources(
    "Policy",
    "BinaryMediaTypes",
    "DisableExecuteApiEndpoint",
    "EndpointConfiguration",
    "MinimumCompressionSize",
)
def api_patches(values: Values) -> list[dict[str, str]]:
    """Return the patch operations for those parts of an API that are not plain text."""
    patches = _remaining(values, "BinaryMediaTypes", "/binaryMediaTypes/{}")
    put: dict[str, str] = {}
    if "Policy" in values.changed:
        policy = values.get("Policy")
        put["/policy"] = json.dumps(policy) if isinstance(policy, dict) else _text(policy)
    if "DisableExecuteApiEndpoint" in values.changed:
        put["/disableExecuteApiEndpoint"] = _text(values.get("DisableExecuteApiEndpoint") or False)
    if "MinimumCompressionSize" in values.changed:
        put["/minimumCompressionSize"] = _text(values.get("MinimumCompressionSize"))
    patches += [{"op": "replace", "path": path, "value": value} for path, value in put.items()]
    if "EndpointConfiguration" in values.changed:
        before, after = (
            cast("dict[str, list[str]]", one.get("EndpointConfiguration") or {})
            for one in (values.old, values.properties)
        )
        # Documented: the default endpoint type is edge-optimized.
        was, will_be = ((one.get("Types") or ["EDGE"])[0] for one in (before, after))
        path = f"/endpointConfiguration/types/{was}"
        patches.append({"op": "replace", "path": path, "value": will_be})
        if after.get("IpAddressType") != before.get("IpAddressType"):
            path = "/endpointConfiguration/ipAddressType"
            value = _text(after.get("IpAddressType") or "ipv4")
            patches.append({"op": "replace", "path": path, "value": value})
        inner = Values(values.context, cast("dict[str, Any]", after), old=cast("Any", before))
        patches += _remaining(inner, "VpcEndpointIds", "/endpointConfiguration/vpcEndpointIds")
    return patches


def _stage_throttles(stage: dict[str, Any], *, is_new: bool) -> list[dict[str, str]]:
    """Return the patch operations for the methods of a plan's stage with their own limits."""
    path = f"/apiStages/{stage.get('ApiId')}:{stage.get('Stage')}/throttle"
    patches = [] if is_new else [{"op": "remove", "path": path}]
    for name, limits in cast("dict[str, dict[str, Any]]", stage.get("Throttle") or {}).items():
        resource, _, method = name.rpartition("/")
        of_method = f"{path}/{resource.replace('/', '~1') or '~1'}/{method}"
        for limit, value in limits.items():
            path_of_limit = f"{of_method}/{limit[0].lower()}{limit[1:]}"
            patches.append({"op": "replace", "path": path_of_limit, "value": _text(value)})
    return patches


@declare_sources("ApiStages", "Quota", "Throttle")
def plan_patches(values: Values) -> list[dict[str, str]]:
    """Return the patch operations that set a usage plan's stages, quota and throttle to the template's values."""
    patches: list[dict[str, str]] = []
    settings = cast("list[dict[str, Any]]", values.get("ApiStages") or [])
    new = [f"{api_stage.get('ApiId')}:{api_stage.get('Stage')}" for api_stage in settings]
    # The plan's actual state: in a rollback, some changes of the failed update were never made.
    plan = values.context.call("apigateway", "GetUsagePlan", {"usagePlanId": values.id})
    there = cast("list[dict[str, Any]]", plan.get("apiStages") or [])
    old = [f"{api_stage['apiId']}:{api_stage['stage']}" for api_stage in there]
    for verb, items in (
        ("remove", [api_stage for api_stage in old if api_stage not in new]),
        ("add", [api_stage for api_stage in new if api_stage not in old]),
    ):
        patches += [{"op": verb, "path": "/apiStages", "value": api_stage} for api_stage in items]
    for stage in settings:
        patches += _stage_throttles(
            stage, is_new=f"{stage.get('ApiId')}:{stage.get('Stage')}" not in old
        )
    for name in ("quota", "throttle"):
        if name.capitalize() not in values.changed:
            continue
        patches.append({"op": "remove", "path": f"/{name}"})
        settings = cast("dict[str, Any]", values.get(name.capitalize()) or {})
        for key, value in settings.items():
            path = f"/{name}/{key[0].lower()}{key[1:]}"
            patches.append({"op": "add", "path": path, "value": _text(value)})
    return patches


AUTHORIZER_PATHS = {
    "Name": "/name",
    "AuthType": "/authType",
    "AuthorizerCredentials": "/authorizerCredentials",
    "AuthorizerUri": "/authorizerUri",
    "IdentitySource": "/identitySource",
    "IdentityValidationExpression": "/identityValidationExpression",
    "Type": "/type",
}


@declare_sources("AuthorizerResultTtlInSeconds", "ProviderARNs")
def authorizer_patches(values: Values) -> list[dict[str, str]]:
    """Return the patch operations for those parts of an authorizer that are not text."""
    patches = _remaining(values, "ProviderARNs", "/providerARNs")
    if "AuthorizerResultTtlInSeconds" in values.changed:
        # Documented: the default is 300.
        ttl = values.get("AuthorizerResultTtlInSeconds")
        value = _text(300 if ttl is None else ttl)
        patches.append({"op": "replace", "path": "/authorizerResultTtlInSeconds", "value": value})
    return patches


@declare_sources("CloudWatchRoleArn")
def role_patch(values: Values) -> list[dict[str, str]]:
    """Return the patch operation that sets the account's role for logs."""
    role = values.get("CloudWatchRoleArn")
    return [{"op": "replace", "path": "/cloudwatchRoleArn", "value": role}] if role else []


def _method_key(setting: Mapping[str, Any]) -> str:
    """Return the key of a method's settings in a stage, such as `~1flights/GET` or `*/*`."""
    path = str(setting.get("ResourcePath") or "/*").lstrip("/").replace("/", "~1") or "~1"
    return f"{path}/{setting.get('HttpMethod') or '*'}"


def live_method_settings(values: Values) -> list[dict[str, Any]]:
    """Return a stage's settings by method as a template lists them, under the paths that the template writes."""
    live: dict[str, dict[str, Any]] = values.answer.get("methodSettings") or {}
    written: dict[str, list[Any]] = {}
    for setting in values.items("MethodSettings"):
        written.setdefault(_method_key(setting), []).append(setting)
    listed: list[dict[str, Any]] = []
    for key, answered in live.items():
        settings, (path, _, method) = dict(answered), key.rpartition("/")
        rate = settings.get("throttlingRateLimit")
        if isinstance(rate, float) and rate.is_integer():
            settings["throttlingRateLimit"] = int(rate)  # as templates write it
        # A template may set one method by several items (the CDK's escape hatches add some).
        for item in written.get(key, [{}]):
            place: dict[str, Any] = {"ResourcePath": f"/{path}", "HttpMethod": method}
            place.update({name: item[name] for name in place if item.get(name) is not None})
            listed.append({**settings, **place})
    return listed


@declare_sources("MethodSettings", "AccessLogSetting")
def stage_settings(values: Values) -> list[dict[str, str]]:
    """Return a stage's method settings and access log as patch operations; the create call has no members for them."""
    patches: list[dict[str, str]] = []
    names = {
        "LoggingLevel": "logging/loglevel",
        "MetricsEnabled": "metrics/enabled",
        "DataTraceEnabled": "logging/dataTrace",
        "ThrottlingBurstLimit": "throttling/burstLimit",
        "ThrottlingRateLimit": "throttling/rateLimit",
        "CachingEnabled": "caching/enabled",
        "CacheTtlInSeconds": "caching/ttlInSeconds",
        "CacheDataEncrypted": "caching/dataEncrypted",
    }
    for setting in values.items("MethodSettings"):
        key = _method_key(setting)
        for name, member in names.items():
            if name in setting:
                patches.append(
                    {
                        "op": "replace",
                        "path": f"/{key}/{member}",
                        "value": _text(setting[name]),
                    }
                )
    for name, member in {"DestinationArn": "destinationArn", "Format": "format"}.items():
        value = values.get(f"AccessLogSetting.{name}")
        if value:
            patches.append(
                {"op": "replace", "path": f"/accessLogSettings/{member}", "value": str(value)}
            )
    return patches
