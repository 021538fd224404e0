"""Lake Formation: settings, resources, permissions."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType, Values


def _is_granted(values: Values) -> bool:
    """Whether a principal already has any of the permissions: removing them would revoke another resource's grant."""
    params = {"Principal": values.get("Principal"), "Resource": values.get("Resource")}
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
]
