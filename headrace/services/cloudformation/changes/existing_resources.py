"""Refuses to create a resource that exists already; otherwise a stack would take over what it did not create.

AWS's sentences: `Resource of type ... with identifier ... already exists.` from the handlers of its types, and `...
already exists in stack ...` when another stack created it (both observed by many users).
"""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError
from headrace.core.ids import Ids
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.store import Stacks

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
