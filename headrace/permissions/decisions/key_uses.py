"""The KMS actions that a service does for a caller with a resource's key, and the grants that allow them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from headrace.permissions.policies.model import Access, Context, Principal
from headrace.permissions.requests.keys import (
    ENCRYPTION_CONTEXT,
    actions_on_key,
    keys_of_service,
    kind_of_key,
)

# Finds, in an account and a region, a resource that a request names without an ARN.
FindIn = Callable[[str, str, str, str, str], str | None]


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant on a key.

    Attributes:
        grantee: the principal's ARN.
        operations: the allowed operations, by KMS's names (`Decrypt`).
        equals: the exact encryption context that a use must have; None without this constraint.
        subset: the pairs that the encryption context of a use must contain.
    """

    grantee: str
    operations: tuple[str, ...]
    equals: Mapping[str, str] | None = None
    subset: Mapping[str, str] = field(default_factory=dict[str, str])

    def lets(self, context: Mapping[str, str]) -> bool:
        """Whether a use in an encryption context meets the constraints.

        Source: kms/latest/APIReference/API_GrantConstraints.html. KMS compares names case-sensitively; headrace does
        not, since it has the context as condition keys.
        """
        if self.equals is not None and _lower_names(self.equals) != context:
            return False
        return _lower_names(self.subset).items() <= context.items()


# Returns the grants on a key.
Grants = Callable[[str], Iterable[Grant]]


def _lower_names(context: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in context.items()}


def with_keys(access: Access, keys: Context) -> Access:
    """Return an access with more condition keys."""
    return replace(access, context={**access.context, **keys})


def use_of_key(service: str, action: str, key: str, resource: str = "") -> Access:
    """Return the access to a key, given by ARN, that a service makes for its caller and a resource."""
    region, account = key.split(":", 5)[3:5]
    return with_keys(Access.to(action, key), keys_of_service(service, account, region, resource))


def uses_of_key(find: FindIn, action: str, resource: str) -> Iterator[Access]:
    """Yield the accesses to the customer's key that `action` on an encrypted resource needs."""
    on_key = actions_on_key(action)
    if not on_key:
        return
    service = action.partition(":")[0]
    key = find("", "", service, kind_of_key(action), resource)
    scope = find("", "", service, "key scope", resource) if service == "s3" else None
    for name in on_key if key else ():
        yield use_of_key(service, name, key or "", scope or resource)


def is_granted(grants: Grants, principal: Principal, access: Access) -> bool:
    """Whether a grant on a key allows a caller an access to it."""
    if not access.action.startswith("kms:") or not access.resource.startswith("arn:"):
        return False
    names = {principal.arn, principal.identity_arn}
    operation = access.action.removeprefix("kms:")
    start = len(ENCRYPTION_CONTEXT)
    context = {
        key[start:]: values[0]
        for key, values in access.context.items()
        if key.startswith(ENCRYPTION_CONTEXT)
    }
    return any(
        grant.grantee in names and operation in grant.operations and grant.lets(context)
        for grant in grants(access.resource)
    )
