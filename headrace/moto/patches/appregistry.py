"""Service Catalog AppRegistry: updates, deletions, attribute groups, and associations with this cloud's stacks."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from headrace.aws.calls.errors import AwsError
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.stored_names import stored_as


def add_missing_calls(urls: Any) -> None:
    """Allow updates and deletions of applications, and refuse a second one with the same name."""
    from moto.core.exceptions import JsonRESTError
    from moto.servicecatalogappregistry.models import AppRegistryBackend
    from moto.servicecatalogappregistry.responses import AppRegistryResponse

    response: Any = AppRegistryResponse
    backend: Any = AppRegistryBackend
    create = backend.create_application

    def find(self: Any) -> Any:
        name = self.path.rsplit("/", 1)[-1]
        for candidate in self.servicecatalogappregistry_backend.applications.values():
            if name in (candidate.id, candidate.name, candidate.arn):
                return candidate
        raise JsonRESTError("ResourceNotFoundException", f"Application {name} not found")

    @functools.wraps(create)
    def create_application(self: Any, name: str, *args: Any, **named: Any) -> Any:
        if any(application.name == name for application in self.applications.values()):
            raise JsonRESTError("ConflictException", f"Application {name} already exists")
        return create(self, name, *args, **named)

    def update_application(self: Any) -> str:
        application = find(self)
        application.description = self._get_param("description")
        return json.dumps({"application": application.to_json()})

    def delete_application(self: Any) -> str:
        application = find(self)
        del self.servicecatalogappregistry_backend.applications[application.arn]
        return json.dumps({"application": application.to_json()})

    backend.create_application = create_application

    def get_application(self: Any) -> str:
        application = find(self)
        count = len(application.associated_resources)
        return json.dumps({**application.to_json(), "associatedResourceCount": count})

    response.get_application = get_application
    response.update_application = update_application
    response.delete_application = delete_application
    urls.url_paths["{0}/applications/(?P<application>[^/]+)$"] = response.dispatch


def _create_attribute_group(self: Any) -> str:
    from moto.core.exceptions import JsonRESTError
    from moto.moto_api._internal import mock_random
    from moto.utilities.utils import get_partition

    name = self._get_param("name")
    if any(group["name"] == name for group in _groups(self).values()):
        raise JsonRESTError("ConflictException", f"AttributeGroup {name} already exists")
    id_ = mock_random.get_random_string(length=27, include_digits=True, lower_case=True)
    where = f"{get_partition(self.region)}:servicecatalog:{self.region}:{self.current_account}"
    group = {
        "id": id_,
        "arn": f"arn:{where}:/attribute-groups/{id_}",
        "name": name,
        "description": self._get_param("description"),
        "attributes": _check_attributes(self._get_param("attributes")),
        "creationTime": _now(),
        "lastUpdateTime": _now(),
        "tags": self._get_param("tags") or {},
        "applications": [],
    }
    _groups(self)[id_] = group
    return json.dumps({"attributeGroup": _describe_group(group)})


def _get_attribute_group(self: Any) -> str:
    return json.dumps(_describe_group(_group_named(self)))


def _list_attribute_groups(self: Any) -> str:
    return json.dumps(
        {"attributeGroups": [_describe_group(group) for group in _groups(self).values()]}
    )


def _update_attribute_group(self: Any) -> str:
    group = _group_named(self)
    for name in ("name", "description", "attributes"):
        if self._get_param(name) is not None:
            group[name] = self._get_param(name)
    _check_attributes(group["attributes"])
    group["lastUpdateTime"] = _now()
    return json.dumps({"attributeGroup": _describe_group(group)})


def _delete_attribute_group(self: Any) -> str:
    group = _group_named(self)
    del _groups(self)[group["id"]]
    return json.dumps({"attributeGroup": _describe_group(group)})


_GROUP_CALLS = {
    "create_attribute_group": _create_attribute_group,
    "get_attribute_group": _get_attribute_group,
    "list_attribute_groups": _list_attribute_groups,
    "update_attribute_group": _update_attribute_group,
    "delete_attribute_group": _delete_attribute_group,
}


def add_attribute_groups(urls: Any) -> None:
    """Store attribute groups, and which applications have them."""
    from moto.servicecatalogappregistry.responses import AppRegistryResponse

    response: Any = AppRegistryResponse
    for name, call in _GROUP_CALLS.items():
        setattr(response, name, call)
    for path in (
        "attribute-groups$", "attribute-groups/(?P<attribute_group>[^/]+)$",
        "applications/(?P<application>[^/]+)/attribute-groups$",
        "applications/(?P<application>[^/]+)/attribute-groups/(?P<attribute_group>[^/]+)$",
    ):  # fmt: skip
        urls.url_paths["{0}/" + path] = response.dispatch


def add_group_associations(urls: Any) -> None:
    """Add the calls that give attribute groups to applications, and take them away."""
    del urls
    from moto.servicecatalogappregistry.responses import AppRegistryResponse

    response: Any = AppRegistryResponse

    def change_association(self: Any, *, is_added: bool) -> str:
        application = self._find_app_by_any_value(_parse_name(self, "applications"))
        group = _group_named(self)
        others = [arn for arn in group["applications"] if arn != application.arn]
        group["applications"] = [*others, application.arn] if is_added else others
        return json.dumps({"applicationArn": application.arn, "attributeGroupArn": group["arn"]})

    def list_associated_attribute_groups(self: Any) -> str:
        application = self._find_app_by_any_value(_parse_name(self, "applications"))
        ids = [g["id"] for g in _groups(self).values() if application.arn in g["applications"]]
        return json.dumps({"attributeGroups": ids})

    response.associate_attribute_group = functools.partialmethod(change_association, is_added=True)
    response.disassociate_attribute_group = functools.partialmethod(
        change_association, is_added=False
    )
    response.list_associated_attribute_groups = list_associated_attribute_groups


def _groups(response: Any) -> dict[str, dict[str, Any]]:
    """Return an account's attribute groups by their ids; state that was stored before has none."""
    return vars(response.servicecatalogappregistry_backend).setdefault("attribute_groups", {})


def _group_named(response: Any) -> dict[str, Any]:
    """Return the group that the request's path names. Raises ResourceNotFoundException."""
    from moto.core.exceptions import JsonRESTError

    name = _parse_name(response, "attribute-groups")
    for group in _groups(response).values():
        if name in (group["id"], group["name"], group["arn"]):
            return group
    raise JsonRESTError("ResourceNotFoundException", f"AttributeGroup {name} not found")


def _describe_group(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "applications"}


def associate_own_stacks(urls: Any) -> None:
    """Associate applications with stacks of this cloud, which moto does not know, and end associations."""
    del urls
    from moto.core.exceptions import JsonRESTError
    from moto.servicecatalogappregistry.responses import AppRegistryResponse

    response: Any = AppRegistryResponse
    associate = response.associate_resource

    def stack_arn(self: Any, name: str) -> str:
        assert CURRENT.control is not None
        try:
            answer = CURRENT.control.call(
                "cloudformation",
                "DescribeStacks",
                {"StackName": name},
                account=self.current_account,
                region=self.region,
            )
        except AwsError as error:
            raise JsonRESTError(
                "ResourceNotFoundException", f"No CloudFormation stack called '{name}' found"
            ) from error
        return answer["Stacks"][0]["StackId"]

    @functools.wraps(associate)
    def associate_resource(self: Any) -> str:
        if self._get_param("resourceType") != "CFN_STACK":
            return associate(self)
        application = self._find_app_by_any_value(_parse_name(self, "applications"))
        arn = stack_arn(self, unquote(self._get_param("resource")))
        if arn in application.associated_resources:
            raise JsonRESTError("ConflictException", f"{arn} is associated already")
        options = self._get_param("options") or ["APPLY_APPLICATION_TAG"]
        application.associated_resources[arn] = AssociatedStack(arn, options)
        return json.dumps(
            {"applicationArn": application.arn, "resourceArn": arn, "options": options}
        )

    def disassociate_resource(self: Any) -> str:
        application = self._find_app_by_any_value(_parse_name(self, "applications"))
        name = unquote(self._get_param("resource"))
        for arn, resource in application.associated_resources.items():
            if name in (arn, resource.name, resource.resource):
                del application.associated_resources[arn]
                return json.dumps({"applicationArn": application.arn, "resourceArn": arn})
        raise JsonRESTError("ResourceNotFoundException", f"{name} is not associated")

    response.associate_resource = associate_resource
    response.disassociate_resource = disassociate_resource


@stored_as("appregistry_stack")
@dataclass(slots=True)
class AssociatedStack:
    """A stack of an application, in place of moto's class, which looks for the stack in moto."""

    resource: str
    options: list[str]

    def __reduce__(self) -> Any:
        return AssociatedStack, (self.resource, self.options)

    @property
    def name(self) -> str:
        """The stack's name."""
        return self.resource.split("/")[1]

    def to_json(self) -> dict[str, Any]:
        """Return the association as ListAssociatedResources has it."""
        return {
            "name": self.name,
            "arn": self.resource,
            "resourceType": "CFN_STACK",
            "options": self.options,
        }


def _parse_name(response: Any, kind: str) -> str:
    """Return the name after a part of the request's path; it may be an ARN with slashes in it, encoded."""
    parts = response.parsed_url.path.split("/")
    return unquote(parts[parts.index(kind) + 1])


def _check_attributes(attributes: str) -> str:
    """Return the JSON of an attribute group. Raises ValidationException."""
    from moto.core.exceptions import JsonRESTError

    try:
        json.loads(attributes)
    except ValueError as error:
        raise JsonRESTError("ValidationException", "The attributes must be a JSON text") from error
    return attributes


def _now() -> str:
    return datetime.fromtimestamp(CURRENT.clock.now_ms() / 1000, UTC).isoformat()
