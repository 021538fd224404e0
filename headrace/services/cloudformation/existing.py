"""What is there already: a stack takes nothing over that it did not make.

AWS's sentences: `Resource of type ... with identifier ... already exists.` from the handlers of its types, and `...
already exists in stack ...` when another stack made it (both observed by many users).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.aws.errors import AwsError
from headrace.services.cloudformation.errors import ResourceFailed

if TYPE_CHECKING:
    from headrace.services.cloudformation.service import CloudFormation
    from headrace.services.cloudformation.state import Stack

# How services say that a name is taken.
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
    """Whether a service refused to make something because it is there."""
    return isinstance(error, AwsError) and error.code in _CODES


def already_exists(cfn: CloudFormation, stack: Stack, kind: str, identifier: str) -> ResourceFailed:
    """Return the refusal to make what is there already."""
    for other in cfn.stacks.all(stack.account, stack.region):
        if other.exists and other.stack_id != stack.stack_id:
            for resource in list(other.resources.values()):
                if (resource.type, resource.physical_id) == (kind, identifier):
                    return ResourceFailed(f"{identifier} already exists in stack {other.stack_id}")
    return ResourceFailed(
        f"Resource handler returned message: \"Resource of type '{kind}' with identifier '{identifier}' already"
        f' exists." (RequestToken: {cfn.ids.uuid()}, HandlerErrorCode: AlreadyExists)'
    )
