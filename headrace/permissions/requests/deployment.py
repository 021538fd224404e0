"""CloudFormation, EMR and Glue: stacks by name, clusters by id, and tables together with their database and catalog.

Source: list_awscloudformation.html, list_amazonelasticmapreduce.html and list_awsglue.html of the Service
Authorization Reference; docs.aws.amazon.com/glue/latest/dg/glue-specifying-resource-arns.html.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from headrace.core.arn import make_arn
from headrace.permissions.requests.request import Request, RequiredPermission
from headrace.permissions.requests.table import prefix_named

RequiredPermissions = tuple[RequiredPermission, ...] | None


def cloudformation_permissions(request: Request) -> RequiredPermissions:
    """A stack that does not exist yet, or whose id is unknown, has `*` for its id."""
    name = request.text("StackName")
    change_set = request.text("ChangeSetName")
    if not name and change_set.startswith("arn:"):
        name = request.find("cloudformation", "change set", change_set) or ""
    prefix = prefix_named("cloudformation")
    assert prefix is not None
    action = prefix.actions.get(request.operation.lower())
    if action is None or "stack" not in (*action.required, *action.optional) or not name:
        return None
    if not name.startswith("arn:"):
        stack_arn = request.find("cloudformation", "stack", name)
        name = stack_arn or request.arn("cloudformation", f"stack/{name}/*")
    names = {
        "RoleARN": "cloudformation:rolearn",
        "TemplateURL": "cloudformation:templateurl",
        "ChangeSetName": "cloudformation:changesetname",
        "StackPolicyURL": "cloudformation:stackpolicyurl",
    }
    context: dict[str, tuple[str, ...]] = {
        key: (request.text(parameter_name),)
        for parameter_name, key in names.items()
        if request.text(parameter_name)
    }
    types = cast("list[str]", request.parameters.get("ResourceTypes") or [])
    if types:
        context["cloudformation:resourcetypes"] = tuple(types)
    return (RequiredPermission(f"cloudformation:{action.name}", (name,), context),)


def emr_permissions(request: Request) -> RequiredPermissions:
    """Tags are on clusters, studios and so on, whose ids tell their type; steps may name a role to run as."""
    action = f"elasticmapreduce:{request.operation}"
    tagged = request.text("ResourceId")
    if tagged:
        kind = (
            "studio"
            if tagged.startswith("es-")
            else "editor"
            if tagged.startswith("e-")
            else "cluster"
        )
        return (RequiredPermission(action, (request.arn("elasticmapreduce", f"{kind}/{tagged}"),)),)
    role = request.text("ExecutionRoleArn")
    cluster = request.text("JobFlowId") or request.text("ClusterId")
    if role and cluster:
        context = {"elasticmapreduce:executionrolearn": (role,)}
        return (
            RequiredPermission(
                action, (request.arn("elasticmapreduce", f"cluster/{cluster}"),), context
            ),
        )
    return None


def glue_permissions(request: Request) -> RequiredPermissions:
    """An action on a table needs permission on the catalog, the database and the table, each by its ARN."""
    prefix = prefix_named("glue")
    assert prefix is not None
    action = prefix.actions.get(request.operation.lower())
    if action is None:
        return None
    kinds = (*action.required, *action.optional)
    if not {"catalog", "database", "table", "rootcatalog"} & set(kinds):
        schema = _schemas(request)
        return (RequiredPermission(f"glue:{action.name}", schema),) if schema else None
    database, table = _database(request, kinds), _table(request, kinds)
    account = request.text("CatalogId") or request.account
    owner = account if account.isdigit() else request.account
    base = make_arn("glue", request.region, owner, "")[:-1]
    row = [f"{base}:catalog"] if {"catalog", "rootcatalog"} & set(kinds) else []
    if "database" in kinds:
        row.append(f"{base}:database/{database or '*'}")
    if "table" in kinds:
        row.append(f"{base}:table/{database or '*'}/{table or '*'}")
    return (RequiredPermission(f"glue:{action.name}", tuple(row)),)


def _database(request: Request, kinds: tuple[str, ...]) -> str:
    database_name = request.text("DatabaseName") or _member(request, "DatabaseInput", "Name")
    return database_name or (
        "" if "table" in kinds and "TableName" in request.parameters else request.text("Name")
    )


def _table(request: Request, kinds: tuple[str, ...]) -> str:
    own = request.text("Name") if request.text("DatabaseName") else ""
    return request.text("TableName") or _member(request, "TableInput", "Name") or own


def _schemas(request: Request) -> tuple[str, ...]:
    """Return the registry and the schema that SchemaId or RegistryId names."""
    row: list[str] = []
    for parameter in ("SchemaId", "RegistryId"):
        for member in ("SchemaArn", "RegistryArn"):
            parameter_schema = _member(request, parameter, member)
            row += [parameter_schema] if parameter_schema else []
        registry, schema = (
            _member(request, parameter, "RegistryName"),
            _member(request, parameter, "SchemaName"),
        )
        row += [request.arn("glue", f"registry/{registry}")] if registry else []
        row += (
            [request.arn("glue", f"schema/{registry or 'default-registry'}/{schema}")]
            if schema
            else []
        )
    return tuple(row)


def _member(request: Request, parameter: str, name: str) -> str:
    parameter_value: Any = request.parameters.get(parameter)
    if not isinstance(parameter_value, Mapping):
        return ""
    value = cast("Mapping[str, Any]", parameter_value).get(name)
    return value if isinstance(value, str) else ""


RULES: dict[str, Callable[[Request], RequiredPermissions]] = {
    "cloudformation": cloudformation_permissions,
    "emr": emr_permissions,
    "glue": glue_permissions,
}
