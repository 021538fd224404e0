"""What answers about REST APIs, keys and usage plans show of tags and values, and their status.

As recorded from AWS (LocalStack's apigateway/test_apigateway_api.py and test_apigateway_common.py, 2023 and 2024).

Gateway responses: all kinds are there from the start, and a default one shapes the others; moto knows only those that
were put.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import json
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.moto.current_cloud import CURRENT
from headrace.services.apigateway.refusals import names_of, not_found


def patch_responses(response: Any) -> None:
    """Change the answers of `moto.apigateway.responses`."""
    for name in ("create_rest_api", "delete_model", "put_gateway_response"):
        setattr(response, name, _with_status(getattr(response, name)))
    response.delete_gateway_response = _with_status(response.delete_gateway_response)
    response.delete_rest_api = _delete_api(response.delete_rest_api)
    response.test_invoke_method = _test_method
    response.create_authorizer = _without_default_ttl(response.create_authorizer)
    response.create_domain_name = _with_routing_mode(response.create_domain_name)
    response.update_api_key = _without_value(response.update_api_key)
    for name in ("get_rest_apis", "get_usage_plans", "get_api_keys"):
        setattr(response, name, _list_without_empty_tags(getattr(response, name)))
    for name in ("get_usage_plan", "update_usage_plan", "get_api_key", "update_api_key"):
        setattr(response, name, _with_tags(getattr(response, name)))


def patch_models(module: Any) -> None:
    """Let accounts, authorizers and domain names of `moto.apigateway.models` show what they always show."""
    module.Account.to_json = _with_features(module.Account.to_json)
    module.DomainName.to_json = _describe_domain(module.DomainName.to_json)
    module.Authorizer.to_json = _describe_authorizer(module.Authorizer.to_json)


def _with_features(to_json: Any) -> Any:
    """Show that an account has usage plans, as all have (documented: aws apigateway get-account)."""

    @functools.wraps(to_json)
    def describe(self: Any) -> dict[str, Any]:
        return {**to_json(self), "features": self.features or ["UsagePlans"]}

    return describe


def _describe_authorizer(to_json: Any) -> Any:
    """Show an authorizer's kind, and how long its answers are kept if the request said so (recorded)."""

    @functools.wraps(to_json)
    def describe(self: Any) -> dict[str, Any]:
        is_pool = self.type == "COGNITO_USER_POOLS"
        shown = {"authType": "cognito_user_pools" if is_pool else "custom", **to_json(self)}
        if shown["authorizerResultTtlInSeconds"] is None:
            del shown["authorizerResultTtlInSeconds"]
        return shown

    return describe


def _without_default_ttl(create: Any) -> Any:
    @functools.wraps(create)
    def create_authorizer(self: Any) -> Any:
        status, headers, body = create(self)
        if self._get_param("authorizerResultTtlInSeconds") is None:
            api = self.backend.get_rest_api(names_of(self)[1])
            authorizer = api.authorizers[json.loads(body)["id"]]
            authorizer.authorizer_result_ttl = None
            body = json.dumps(authorizer.to_json())
        return status, headers, body

    return create_authorizer


def _describe_domain(to_json: Any) -> Any:
    """Show the defaults of a domain name (documented: API_DomainName.html)."""

    @functools.wraps(to_json)
    def describe(self: Any) -> dict[str, Any]:
        shown = to_json(self)
        endpoints = dict(shown.get("endpointConfiguration") or {})
        kinds = endpoints.setdefault("types", ["EDGE"])
        endpoints.setdefault("ipAddressType", "dualstack" if kinds == ["PRIVATE"] else "ipv4")
        return {
            **shown,
            "endpointConfiguration": endpoints,
            "securityPolicy": shown.get("securityPolicy") or "TLS_1_2",
            # Domain names that were stored before have none.
            "routingMode": getattr(self, "routing_mode", None) or "BASE_PATH_MAPPING_ONLY",
        }

    return describe


def _with_routing_mode(create: Any) -> Any:
    @functools.wraps(create)
    def create_domain_name(self: Any) -> Any:
        status, headers, _ = create(self)
        made = self.backend.domain_names[self._get_param("domainName")]
        made.routing_mode = self._get_param("routingMode")
        return status, headers, json.dumps(made.to_json())

    return create_domain_name


def _test_method(self: Any) -> Any:
    _, api_id, _, resource_id, _, method = names_of(self)
    self.backend.get_method(api_id, resource_id, method)
    if CURRENT.test_method is None:
        raise AwsError("ServiceUnavailable", "headrace is starting or stopping", 503)
    asked = json.loads(self.body or "{}")
    return 200, {}, json.dumps(CURRENT.test_method(api_id, resource_id, method, asked))


def _with_status(call: Any) -> Any:
    """Let an answer have its status, for which moto looks among the headers."""

    @functools.wraps(call)
    def answer_with_status(self: Any) -> Any:
        status, headers, body = call(self)
        return status, {**headers, "status": status}, body

    return answer_with_status


def without_empty_tags(shown: dict[str, Any]) -> dict[str, Any]:
    """Leave out tags that are not there, as answers to calls that make or list do; recorded."""
    return {name: value for name, value in shown.items() if name != "tags" or value}


def _list_without_empty_tags(get_all: Any) -> Any:
    @functools.wraps(get_all)
    def get_without_empty_tags(self: Any) -> Any:
        shown = json.loads(get_all(self))
        return json.dumps({"item": [without_empty_tags(one) for one in shown["item"]]})

    return get_without_empty_tags


def _with_tags(get: Any) -> Any:
    """Show tags, also when there are none, as answers about one thing do; recorded."""

    @functools.wraps(get)
    def get_with_tags(self: Any) -> Any:
        shown = json.loads(get(self))
        return json.dumps({**shown, "tags": shown.get("tags") or {}})

    return get_with_tags


def _delete_api(delete: Any) -> Any:
    @functools.wraps(delete)
    def delete_rest_api(self: Any) -> Any:
        delete(self)
        return 202, {"status": 202}, ""

    return delete_rest_api


def _without_value(update: Any) -> Any:
    @functools.wraps(update)
    def update_api_key(self: Any) -> Any:
        shown = json.loads(update(self))
        return json.dumps({name: value for name, value in shown.items() if name != "value"})

    return update_api_key


TEMPLATES = {"application/json": '{"message":$context.error.messageString}'}
_STATUSES: dict[str, str | None] = {
    "REQUEST_TOO_LARGE": "413",
    "RESOURCE_NOT_FOUND": "404",
    "AUTHORIZER_CONFIGURATION_ERROR": "500",
    "MISSING_AUTHENTICATION_TOKEN": "403",
    "BAD_REQUEST_BODY": "400",
    "INVALID_SIGNATURE": "403",
    "INVALID_API_KEY": "403",
    "BAD_REQUEST_PARAMETERS": "400",
    "AUTHORIZER_FAILURE": "500",
    "UNAUTHORIZED": "401",
    "INTEGRATION_TIMEOUT": "504",
    "ACCESS_DENIED": "403",
    "DEFAULT_4XX": None,
    "DEFAULT_5XX": None,
    "WAF_FILTERED": "403",
    "QUOTA_EXCEEDED": "429",
    "THROTTLED": "429",
    "API_CONFIGURATION_ERROR": "500",
    "UNSUPPORTED_MEDIA_TYPE": "415",
    "INTEGRATION_FAILURE": "504",
    "EXPIRED_TOKEN": "403",
}


def add_gateway_responses(response: Any) -> None:
    """Replace the answers of `moto.apigateway.responses`."""
    response.get_gateway_response = _get
    response.get_gateway_responses = _get_all
    response.put_gateway_response = _put(response.put_gateway_response)
    response.delete_gateway_response = _delete(response.delete_gateway_response)


def own_response(backend: Any, api_id: str, kind: str) -> Any:
    """Return the API's own response of a kind for an update: the default one becomes its own."""
    _check_kind(kind)
    api = backend.get_rest_api(api_id)
    if kind not in api.gateway_responses:
        backend.put_gateway_response(api_id, kind, _STATUSES[kind], {}, dict(TEMPLATES))
    return api.gateway_responses[kind]


def _check_kind(kind: str) -> None:
    from moto.apigateway.exceptions import ValidationException

    if kind not in _STATUSES:
        raise ValidationException(
            f"1 validation error detected: Value '{kind}' at 'responseType' failed to satisfy"
            f" constraint: Member must satisfy enum value set: [{', '.join(_STATUSES)}]"
        )


def _show_response(api: Any, kind: str) -> dict[str, Any]:
    """Return a kind as it is shown: the API's own, or the default one, which DEFAULT_4XX or DEFAULT_5XX shape."""
    status = _STATUSES[kind]
    own = api.gateway_responses.get(kind)
    shaping = api.gateway_responses.get(f"DEFAULT_{(status or ' ')[0]}XX")
    chosen = own or shaping
    shown: dict[str, Any] = {} if chosen is None else chosen.to_json()
    code = shown.get("statusCode") or status
    return {
        "responseType": kind,
        "defaultResponse": own is None,
        "responseParameters": shown.get("responseParameters") or {},
        "responseTemplates": shown.get("responseTemplates") or TEMPLATES,
        **({"statusCode": code} if code else {}),
    }


def _get(self: Any) -> Any:
    _, api_id, _, kind = names_of(self)
    _check_kind(kind)
    return 200, {}, json.dumps(_show_response(self.backend.get_rest_api(api_id), kind))


def _get_all(self: Any) -> Any:
    api = self.backend.get_rest_api(names_of(self)[1])
    return 200, {}, json.dumps({"item": [_show_response(api, kind) for kind in _STATUSES]})


def _put(put: Any) -> Any:
    @functools.wraps(put)
    def put_gateway_response(self: Any) -> Any:
        _, api_id, _, kind = names_of(self)
        _check_kind(kind)
        status, headers, _ = put(self)
        return status, headers, json.dumps(_show_response(self.backend.get_rest_api(api_id), kind))

    return put_gateway_response


def _delete(delete: Any) -> Any:
    @functools.wraps(delete)
    def delete_gateway_response(self: Any) -> Any:
        _, api_id, _, kind = names_of(self)
        _check_kind(kind)
        if kind not in self.backend.get_rest_api(api_id).gateway_responses:
            raise not_found("Gateway response type not defined on api")
        return delete(self)

    return delete_gateway_response
