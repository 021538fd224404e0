"""Service Catalog AppRegistry: applications, attribute groups, and what belongs to an application."""

from __future__ import annotations

import json

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)


def _is_registered(values: Values) -> bool:
    answer = values.context.call("servicecatalog-appregistry", "ListApplications", {})
    return any(application["name"] == values.get("Name") for application in answer["applications"])


def _arn_of_application(values: Values) -> str:
    scope = values.context.region, values.context.account
    return make_arn("servicecatalog", *scope, f"/applications/{values.id}")


_SERVICE = "servicecatalog-appregistry"
_TOKEN: dict[str, Source] = {"clientToken": lambda v: v.context.ids.uuid()}


@declare_sources("Attributes")
def _attributes(values: Values) -> str:
    return json.dumps(values.get("Attributes"), separators=(",", ":"))


def _is_group(values: Values) -> bool:
    answer = values.context.call(_SERVICE, "ListAttributeGroups", {})
    return any(group["name"] == values.get("Name") for group in answer["attributeGroups"])


def _part(number: int) -> Source:
    return lambda values: values.id.split("|")[number]


DECLARED = [
    DeclaredType(
        "AWS::ServiceCatalogAppRegistry::Application",
        "servicecatalog-appregistry",
        create=[Call("CreateApplication", {"clientToken": lambda v: v.context.ids.uuid()})],
        id="@answer.application.id",
        exists=_is_registered,
        update=[Call("UpdateApplication", {"application": "@id"}, only=("Description",))],
        delete=[Call("DeleteApplication", {"application": "@id"})],
        attributes={
            "Id": "@id",
            "Arn": _arn_of_application,
            "ApplicationName": "Name",
            "ApplicationTagKey": lambda _: "awsApplication",
            "ApplicationTagValue": _arn_of_application,
        },
    ),
    DeclaredType(
        "AWS::ServiceCatalogAppRegistry::AttributeGroup",
        _SERVICE,
        create=[Call("CreateAttributeGroup", {**_TOKEN, "attributes": _attributes})],
        id="@answer.attributeGroup.id",
        exists=_is_group,
        update=[
            Call(
                "UpdateAttributeGroup",
                {"attributeGroup": "@id", "attributes": _attributes},
                only=("Name", "Description"),
            )
        ],
        delete=[Call("DeleteAttributeGroup", {"attributeGroup": "@id"})],
        attributes={"Id": "@id", "Arn": "@answer.attributeGroup.arn"},
    ),
    DeclaredType(
        "AWS::ServiceCatalogAppRegistry::AttributeGroupAssociation",
        _SERVICE,
        create=[Call("AssociateAttributeGroup")],
        id=lambda v: f"{v.answer['applicationArn']}|{v.answer['attributeGroupArn']}",
        delete=[
            Call(
                "DisassociateAttributeGroup",
                {"application": "Application", "attributeGroup": "AttributeGroup"},
            )
        ],
        attributes={"ApplicationArn": _part(0), "AttributeGroupArn": _part(1)},
    ),
    DeclaredType(
        "AWS::ServiceCatalogAppRegistry::ResourceAssociation",
        _SERVICE,
        create=[Call("AssociateResource")],
        id=lambda v: "|".join(
            (v.answer["applicationArn"], v.answer["resourceArn"], str(v.get("ResourceType")))
        ),
        delete=[
            Call(
                "DisassociateResource",
                {
                    "application": "Application",
                    "resourceType": "ResourceType",
                    "resource": "Resource",
                },
            )
        ],
        attributes={"ApplicationArn": _part(0), "ResourceArn": _part(1)},
    ),
]
