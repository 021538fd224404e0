"""The gateway responses of a REST API: all kinds are there from the start, and a default one shapes the others.

moto knows only those that were put. As recorded from AWS (LocalStack's apigateway/test_apigateway_api.py, 2024).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import json
from typing import Any

from headrace.services.apigateway.refusals import names_of, not_found

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


def patch_responses(response: Any) -> None:
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
