"""API Gateway: a management call needs the method of its HTTP request, on the path of its HTTP request.

Source: docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-iam-policy-examples.html and
list_amazonapigatewaymanagement.html, list_amazonapigatewaymanagementv2.html of the Service Authorization Reference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import quote

from headrace.aws.calls.operation import operation_model
from headrace.core.arn import partition_of
from headrace.core.system_tags import is_system
from headrace.permissions.requests.table import Request, RequiredPermission, prefix_named

SERVICES = frozenset({"apigateway", "apigatewayv2"})
_PLACE = re.compile(r"\{([\w-]+)\+?\}")
# The operations that take a definition of an API, and the member that has it.
_DEFINITIONS = {
    "ImportRestApi": "body",
    "PutRestApi": "body",
    "ImportApi": "Body",
    "ReimportApi": "Body",
}
_POLICY = "x-amazon-apigateway-policy"
_NO_NAMES: Mapping[str, Any] = {}


def api_permissions(request: Request) -> tuple[RequiredPermission, ...] | None:
    """Return the permissions for an operation of either of API Gateway's two interfaces.

    None for portals and routing rules, whose actions have the operations' names.
    """
    prefix = prefix_named("apigateway")
    if prefix is not None and request.operation.lower() in prefix.actions:
        return None
    method, resource = _place(request, request.operation, request.parameters)
    needed = [RequiredPermission(f"apigateway:{method}", (resource,))]
    if _sets_policy(request):
        # Documented: a further permission, since a policy says who may call the API.
        needed.append(RequiredPermission("apigateway:UpdateRestApiPolicy", (resource,)))
    if request.operation not in ("TagResource", "UntagResource") and _has_tags(request):
        # Observed (github.com/mattclay/aws-terminator/pull/284): apigateway:PUT on the tags of `/restapis/*`.
        tagging, tags = _place(request, "TagResource", _NO_NAMES)
        tagged = quote(f"{resource}/*", safe="*")
        needed.append(
            RequiredPermission(f"apigateway:{tagging}", (tags.removesuffix("*") + tagged,))
        )
    return tuple(needed)


def definition_of(request: Request) -> Any:
    """Return the definition of an API that a request brings, parsed; None if it brings none that can be read."""
    member = _DEFINITIONS.get(request.operation)
    given: Any = request.parameters.get(member) if member is not None else None
    if not given:
        return None
    text = given.decode(errors="surrogateescape") if isinstance(given, bytes) else str(given)
    found = request.find("apigateway", "definition", text)
    return None if found is None else json.loads(found)


def _place(request: Request, operation: str, parameters: Mapping[str, Any]) -> tuple[str, str]:
    """Return an operation's HTTP method, and the ARN of its path; what is not given is `*`."""
    model = operation_model(request.service, operation)
    arn = f"arn:{partition_of(request.region)}:apigateway:{request.region}::"
    return str(model.http["method"]), arn + _fill(model, parameters)


def _fill(model: Any, parameters: Mapping[str, Any]) -> str:
    members = model.input_shape.members.items() if model.input_shape else ()
    values = {
        str(shape.serialization.get("name", name)): parameters.get(name) for name, shape in members
    }
    path = str(model.http["requestUri"]).partition("?")[0].removeprefix("/v2")
    return _PLACE.sub(lambda found: quote(str(values.get(found[1]) or "*"), safe="*$"), path)


def _sets_policy(request: Request) -> bool:
    if request.operation == "CreateRestApi":
        return bool(request.parameters.get("policy"))
    if request.operation == "UpdateRestApi":
        return any(path.startswith("/policy") for path in _paths(request))
    definition = definition_of(request) if request.operation.endswith("RestApi") else None
    return isinstance(definition, dict) and _POLICY in definition


def _paths(request: Request) -> Iterator[str]:
    listed = cast("list[Mapping[str, Any]]", request.parameters.get("patchOperations") or [])
    return (str(one.get("path", "")) for one in listed)


def _has_tags(request: Request) -> bool:
    tags: Any = request.parameters.get("tags") or request.parameters.get("Tags") or {}
    return not all(is_system(str(key)) for key in tags)
