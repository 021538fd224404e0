"""VPC links of REST APIs: their refusals, statuses and updates, which moto does not have.

As recorded from AWS (LocalStack's apigateway/test_apigateway_api.py, December 2025). Observed by users: the refusal to
delete a link that an integration names. Documented: what can be updated (patch-operations.html). Nothing is in a VPC
here: whatever a link leads to, an integration's request goes to its own address.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from typing import Any

from headrace.services.apigateway.refusals import (
    bad_request,
    check_operations,
    check_replaced,
    names_of,
    not_found,
)
from headrace.services.apigateway.rest_answers import without_empty_tags

_Answer = tuple[int, dict[str, Any], str]
_PATHS = ("/name", "/description")
_READY = "Your vpc link is ready for use"


def patch_responses(response: Any) -> None:
    """Replace the calls of `moto.apigateway.responses`."""
    for call in (
        create_vpc_link, get_vpc_link, get_vpc_links, update_vpc_link, delete_vpc_link
    ):  # fmt: skip
        setattr(response, call.__name__, call)


def create_vpc_link(self: Any) -> _Answer:
    """CreateVpcLink: only its own answer says that the link is not ready yet."""
    arns = list(self._get_param("targetArns") or [])
    _check_name(self._get_param("name"))
    for arn in arns:
        if not (arn.startswith("arn:") and arn.count(":") >= 5):
            raise bad_request(f"Invalid ARN. ARN is not well formed {arn}")
    link = self.backend.create_vpc_link(
        name=self._get_param("name"),
        description=self._get_param("description"),
        target_arns=arns,
        tags=self._get_param("tags"),
    )
    shown = without_empty_tags({**_show(link), "status": "PENDING"})
    del shown["statusMessage"]
    return 202, {"status": 202}, json.dumps(shown)


def get_vpc_link(self: Any) -> _Answer:
    """GetVpcLink."""
    return 200, {}, json.dumps(_show(_find(self)))


def get_vpc_links(self: Any) -> _Answer:
    """GetVpcLinks."""
    links = self.backend.get_vpc_links()
    return 200, {}, json.dumps({"item": [without_empty_tags(_show(link)) for link in links]})


def update_vpc_link(self: Any) -> _Answer:
    """UpdateVpcLink."""
    link = _find(self)
    check_operations("update_vpc_link", self)
    operations = self._get_param("patchOperations") or []
    for operation in operations:
        check_replaced([operation], _PATHS)
        if operation["path"] == "/name":
            _check_name(operation.get("value"))
    for operation in operations:
        setattr(link, operation["path"].lstrip("/"), operation.get("value") or None)
    return 200, {}, json.dumps(_show(link))


def delete_vpc_link(self: Any) -> _Answer:
    """DeleteVpcLink."""
    link = _find(self)
    uses = [
        f"{method.http_method}:{resource.id}:{stage}"
        for api in self.backend.apis.values()
        for resource in api.resources.values()
        for method in resource.resource_methods.values()
        if getattr(method.method_integration, "connection_id", None) == link.id
        for stage in api.stages
    ]
    if uses:
        raise bad_request(
            f"Cannot delete vpc link. Vpc link '{link.id}', is referenced in [{', '.join(uses)}] in format of"
            " [Method:Resource:Stage]."
        )
    self.backend.delete_vpc_link(vpc_link_id=link.id)
    return 202, {"status": 202}, "{}"


def _check_name(name: Any) -> None:
    if not name:
        raise bad_request("Name cannot be empty")


def _find(self: Any) -> Any:
    link = self.backend.vpc_links.get(names_of(self)[1])
    if link is None:
        raise not_found("Invalid Vpc Link identifier specified")
    return link


def _show(link: Any) -> dict[str, Any]:
    shown = {name: value for name, value in link.to_json().items() if value is not None}
    return {**shown, "statusMessage": _READY, "tags": link.tags or {}}
