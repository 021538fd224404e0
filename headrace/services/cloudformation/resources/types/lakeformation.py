"""Lake Formation: settings, resources, permissions."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)


@declare_sources("Resource")
def _older_resource(values: Values) -> dict[str, Any]:
    """Return a resource in the API's form, which has other names than the older of the two types."""
    parts: dict[str, dict[str, Any]] = values.get("Resource") or {}
    resource = {name.removesuffix("Resource"): dict(part) for name, part in parts.items()}
    location = resource.get("DataLocation", {})
    if "S3Resource" in location:
        location["ResourceArn"] = location.pop("S3Resource")
    return resource


_OLDER = {"Principal": "DataLakePrincipal", "Resource": _older_resource}


def _is_granted(values: Values) -> bool:
    """Whether a principal already has any of the permissions: removing them would revoke another resource's grant."""
    params = {
        "Principal": values.get("Principal") or values.get("DataLakePrincipal"),
        "Resource": _older_resource(values)
        if values.get("DataLakePrincipal")
        else values.get("Resource"),
    }
    answer = values.context.call("lakeformation", "ListPermissions", params)
    had = {p for e in answer["PrincipalResourcePermissions"] for p in e.get("Permissions", ())}
    return bool(had & set(values.get("Permissions")))


DECLARED = [
    DeclaredType(
        "AWS::LakeFormation::Resource",
        "lakeformation",
        create=[Call("RegisterResource")],
        id="ResourceArn",
        delete=[Call("DeregisterResource", {"ResourceArn": "ResourceArn"})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::LakeFormation::DataLakeSettings",
        "lakeformation",
        create=[Call("PutDataLakeSettings", into="DataLakeSettings")],
        id=lambda v: f"{v.context.stack_name}-{v.context.logical_id}",
        update=[Call("PutDataLakeSettings", into="DataLakeSettings")],
        delete=[],
        names={"Admins": "DataLakeAdmins"},
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::LakeFormation::PrincipalPermissions",
        "lakeformation",
        create=[Call("GrantPermissions", {"CatalogId": "Catalog"})],
        id=lambda v: f"{v.context.stack_name}-{v.context.logical_id}",
        exists=_is_granted,
        delete=[
            Call(
                "RevokePermissions",
                {
                    "CatalogId": "Catalog",
                    "Principal": "Principal",
                    "Resource": "Resource",
                    "Permissions": "Permissions",
                },
            )
        ],
        attributes={"PrincipalIdentifier": "@id", "ResourceIdentifier": "@id"},
    ),
    DeclaredType(
        "AWS::LakeFormation::Permissions",
        "lakeformation",
        create=[Call("GrantPermissions", _OLDER)],
        id=lambda v: f"{v.context.stack_name}-{v.context.logical_id}",
        exists=_is_granted,
        delete=[Call("RevokePermissions", {**_OLDER, "Permissions": "Permissions"})],
        attributes={"Id": "@id"},
    ),
]
