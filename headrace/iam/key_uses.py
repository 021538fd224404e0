"""What a service does with the KMS key of a resource for a caller, and whether a grant on the key lets it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from headrace.iam.entries import access_to
from headrace.permissions.model import Access, Context, Principal
from headrace.permissions.requests.keys import actions_on_key, keys_of_service, kind_of_key

# Finds, in an account and a region, what a request names without an ARN.
FindIn = Callable[[str, str, str, str, str], str | None]
# Gives grantee and operations of each grant on a key.
Grants = Callable[[str], Iterable[tuple[str, tuple[str, ...]]]]


def with_keys(access: Access, keys: Context) -> Access:
    """Return an access with more condition keys."""
    return replace(access, context={**access.context, **keys})


def use_of_key(service: str, action: str, key: str) -> Access:
    """Return the use of a key, given by ARN, by a service for its caller."""
    region, account = key.split(":", 5)[3:5]
    return with_keys(access_to(action, key), keys_of_service(service, account, region))


def uses_of_key(find: FindIn, action: str, resource: str) -> Iterator[Access]:
    """Yield what `action` on a resource needs of the customer's key that encrypts it."""
    on_key = actions_on_key(action)
    if not on_key:
        return
    service = action.partition(":")[0]
    key = find("", "", service, kind_of_key(action), resource)
    for name in on_key if key else ():
        yield use_of_key(service, name, key or "")


def is_granted(grants: Grants, principal: Principal, access: Access) -> bool:
    """Whether a grant on a key lets a caller do something with it."""
    if not access.action.startswith("kms:") or not access.resource.startswith("arn:"):
        return False
    names = {principal.arn, principal.identity_arn}
    operation = access.action.removeprefix("kms:")
    return any(
        grantee in names and operation in operations
        for grantee, operations in grants(access.resource)
    )
