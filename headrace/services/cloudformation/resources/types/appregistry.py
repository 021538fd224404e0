"""Service Catalog AppRegistry's applications."""

from __future__ import annotations

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.declaration import Call, DeclaredType, Values


def _is_registered(values: Values) -> bool:
    answer = values.context.call("servicecatalog-appregistry", "ListApplications", {})
    return any(application["name"] == values.get("Name") for application in answer["applications"])


def _arn_of_application(values: Values) -> str:
    scope = values.context.region, values.context.account
    return make_arn("servicecatalog", *scope, f"/applications/{values.id}")


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
]
