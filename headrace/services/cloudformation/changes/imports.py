"""Imports existing resources into a stack, unchanged, and refuses to create one that exists already.

Identifiers name the resource (GetTemplateSummary lists them for each type), or the names in the template find it. AWS's
sentences were observed by many, except those marked as assumed.

Without the refusal a stack would take over what it did not create. AWS's sentences: `Resource of type ... with
identifier ... already exists.` from the handlers of its types, and `... already exists in stack ...` when another stack
created it (both observed by many users).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.ids import Ids
from headrace.services.cloudformation.errors import ResourceFailed, TemplateError
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.resources.base import Context, ResourceResult
from headrace.services.cloudformation.resources.schemas import list_names
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template.functions import is_unknown
from headrace.services.cloudformation.template.template import Template

# The error codes that mean that a name is taken.
_CODES = frozenset(
    {
        "AlreadyExists",
        "AlreadyExistsException",
        "BucketAlreadyExists",
        "BucketAlreadyOwnedByYou",
        "EntityAlreadyExists",
        "EntityAlreadyExistsException",
        "ParameterAlreadyExists",
        "QueueAlreadyExists",
        "RepositoryAlreadyExistsException",
        "ResourceAlreadyExistsException",
        "ResourceConflictException",
        "ResourceInUseException",
    }
)


def means_existing(error: Exception) -> bool:
    """Whether a service refused to create something because it exists already."""
    return isinstance(error, AwsError) and error.code in _CODES


def owner_of(stacks: Stacks, stack: Stack, kind: str, identifier: str) -> Stack | None:
    """Return the other stack that owns a resource, or None."""
    for other, resource in stacks.resources_of_type(stack.account, stack.region, kind):
        is_another = other.exists and other.stack_id != stack.stack_id
        if (
            is_another
            and resource.physical_id == identifier
            and resource.status != "DELETE_SKIPPED"
        ):
            return other
    return None


def already_exists(
    stacks: Stacks, ids: Ids, stack: Stack, kind: str, identifier: str
) -> ResourceFailed:
    """Return the error for a resource that exists already."""
    owner = owner_of(stacks, stack, kind, identifier)
    if owner is not None:
        return ResourceFailed(f"{identifier} already exists in stack {owner.stack_id}")
    return ResourceFailed(
        f"Resource handler returned message: \"Resource of type '{kind}' with identifier '{identifier}' already"
        f' exists." (RequestToken: {ids.uuid()}, HandlerErrorCode: AlreadyExists)'
    )


_KEEPING = ("Retain", "RetainExceptOnCreate")
Contexts = Callable[[Stack, Resource], Context]


def _render_names(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


def identifiers_of(kind: str) -> tuple[str, ...]:
    """Return the properties that identify a resource of this type in an import."""
    return list_names(kind, "primary")


def is_importable(kind: str) -> bool:
    """Whether resources of a type can be imported."""
    known = resource_type(kind)
    reading = None if known is None else known.reading
    return reading is not None and reading.named and len(identifiers_of(kind)) == 1


def check_request(template: Template, requested: list[Mapping[str, Any]]) -> dict[str, str]:
    """Return the resources that a request imports: logical id -> physical id. Raises TemplateError."""
    if not requested:  # the words are assumed
        raise TemplateError("ResourcesToImport is required when ChangeSetType is IMPORT")
    identifiers: dict[str, str] = {}
    for entry in requested:
        name, kind = entry["LogicalResourceId"], entry["ResourceType"]
        definition = template.resources.get(name)
        if definition is None:  # the words are assumed
            raise TemplateError(
                f"Resources {_render_names([name])} passed in ResourceToImport are not in the template"
            )
        if definition["Type"] != kind:
            raise TemplateError(
                f"Resource type of {_render_names([name])} passed in ResourceToImport does not match with resource type"
                f" defined in the template. Resource type in ResourceToImport: {kind}; Resource type in Template:"
                f" {definition['Type']}."
            )
        names_needed = identifiers_of(kind)
        if is_importable(kind) and set(entry["ResourceIdentifier"]) != set(names_needed):
            raise TemplateError(
                f"Invalid resource identifier for resource type {kind}. Expected {_render_names(names_needed)}"
            )
        identifiers[name] = "|".join(
            entry["ResourceIdentifier"].get(member, "") for member in names_needed
        )
    unsupported = [
        entry["ResourceType"] for entry in requested if not is_importable(entry["ResourceType"])
    ]
    if unsupported:
        raise TemplateError(
            f"The following resource types are not supported for resource import: {','.join(unsupported)}"
        )
    return identifiers


def check_changes(
    stack: Stack,
    template: Template,
    importing: Mapping[str, str],
    changes: list[dict[str, Any]],
    *,
    outputs_differ: bool,
) -> None:
    """Raise TemplateError when an import would do anything else than import."""
    touched: dict[str, list[str]] = {}
    for change in changes:
        touched.setdefault(change["Action"], []).append(change["LogicalResourceId"])
    added = touched.get("Add", [])
    if not added:
        raise TemplateError("The template should contain at least one new resource to import.")
    present = [name for name in importing if name not in added]
    if present:
        raise TemplateError(
            f"Resources {_render_names(present)} passed in ResourceToImport are already in a stack and"
            " cannot be imported."
        )
    missing = [name for name in added if name not in importing]
    if missing:
        raise TemplateError(
            f"Resources {_render_names(missing)} is missing from ResourceToImport list"
        )
    others = sorted(touched.get("Modify", []) + touched.get("Remove", []))
    if others:
        raise TemplateError(
            f"You have modified resources {_render_names(others)} in your template that are not being imported. Update,"
            " create or delete operations cannot be executed during import operations."
        )
    if outputs_differ and stack.body:
        raise TemplateError("As part of the import operation, you cannot modify or add [Outputs]")
    unkept = [name for name in importing if "DeletionPolicy" not in template.resources[name]]
    if unkept:
        raise TemplateError(
            f"The following resources to import {_render_names(unkept)} must have DeletionPolicy attribute specified in"
            " the template."
        )


def obstacle(
    stacks: Stacks,
    contexts: Contexts,
    stack: Stack,
    template: Template,
    importing: Mapping[str, str],
) -> str:
    """Return why the resources cannot be imported; an empty text: they can. Raises AwsError."""
    for name, identifier in importing.items():
        kind = str(template.resources[name]["Type"])
        owner = owner_of(stacks, stack, kind, identifier)
        if owner is not None:
            return f"{identifier} already exists in stack {owner.stack_id}"
        try:
            adopt(contexts(stack, Resource(name, kind, "")), kind, identifier, {})
        except ResourceFailed as error:
            return str(error)
    return ""


def adopt(
    context: Context, kind: str, identifier: str, properties: dict[str, Any]
) -> ResourceResult:
    """Return an existing resource in the form that a stack stores. Raises ResourceFailed, AwsError."""
    known = resource_type(kind)
    reading = None if known is None else known.reading
    adopted = None if reading is None else reading.adopt(context, identifier, properties)
    if adopted is None:
        raise ResourceFailed(
            f"Resource handler returned message: \"Resource of type '{kind}' with identifier '{identifier}' was not"
            f' found." (RequestToken: {context.ids.uuid()}, HandlerErrorCode: NotFound)'
        )
    return adopted


def _find_named(context: Context, kind: str, properties: dict[str, Any]) -> str:
    """Return the identifier of the resource with the name in the template; an empty text without a name."""
    known = resource_type(kind)
    name = "" if known is None or is_unknown(properties) else known.name_of(properties)
    if not name or known is None:
        return ""
    if identifiers_of(kind)[0] in properties or known.find is None:
        return name
    # The identifier, such as a queue's URL, is not the name.
    return known.find(context, properties) or ""


def find_existing(
    stacks: Stacks,
    contexts: Contexts,
    stack: Stack,
    template: Template,
    added: Mapping[str, dict[str, Any]],
) -> tuple[dict[str, str], str]:
    """Return the new resources that exist already (logical id -> physical id), and why they cannot be imported.

    The names in the template identify them. Resources of other stacks are left out: creating them fails. `added` holds
    the new resources' properties.
    """
    existing: dict[str, str] = {}
    for name, properties in added.items():
        kind = str(template.resources[name]["Type"])
        if not is_importable(kind):
            continue
        identifier = _find_named(contexts(stack, Resource(name, kind, "")), kind, properties)
        if not identifier or owner_of(stacks, stack, kind, identifier) is not None:
            continue
        try:
            adopt(contexts(stack, Resource(name, kind, "")), kind, identifier, properties)
        except (ResourceFailed, AwsError):
            continue
        existing[name] = identifier
    unkept = [n for n in existing if template.resources[n].get("DeletionPolicy") not in _KEEPING]
    reason = ""
    if unkept:
        shown = ", ".join(
            f"{name} ({{{'='.join((identifiers_of(template.resources[name]['Type'])[0], existing[name]))}}})"
            for name in unkept
        )
        reason = (
            "CloudFormation is attempting to import some resources because they already exist in your account. The"
            " resources must have the DeletionPolicy attribute set to 'Retain' or 'RetainExceptOnCreate' in the"
            f" template for successful import. The affected resources are {shown}"
        )
    return existing, reason


def as_imports(changes: list[dict[str, Any]], importing: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a change set's changes, in which existing resources are imported instead of added."""
    return [
        {**change, "Action": "Import", "PhysicalResourceId": importing[change["LogicalResourceId"]]}
        if change["Action"] == "Add" and change["LogicalResourceId"] in importing
        else change
        for change in changes
    ]
