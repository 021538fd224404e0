"""The data classes of this package: a request, and a permission that it needs. No rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.arn import make_arn

# Finds the ARN of what a request names otherwise, by service, kind and name: ("kinesis", "iterator", ...) of a shard
# iterator the stream, ("kms", "alias", "alias/x") the key, ("secretsmanager", "secret", NAME), ("cloudformation",
# "stack", NAME), ("iam", "role", NAME), ("iam", "instance profile", NAME) the profile's role, ("lambda", "mapping",
# UUID) the mapping's function, ("kinesis", "consumer", STREAM_ARN/NAME), (SERVICE, "key", ARN) the customer's key that
# something is encrypted with; ("kinesis", "queue's stream", ARN of a queue) the stream; ("s3", "key scope", ARN of an
# object) the bucket, where one key of the bucket's serves for all its objects; ("s3", "upload key", "ARN UPLOAD") the
# key of an upload.
# Of ("s3", "owner", BUCKET) it finds the account. None where there is none.
Find = Callable[[str, str, str], str | None]


def find_nothing(service: str, kind: str, name: str) -> str | None:
    """Find nothing: the `Find` for requests without a cloud."""
    return None


@dataclass(frozen=True, slots=True)
class Request:
    """An operation's request, its parameters named and typed as in botocore's model."""

    service: str
    operation: str
    parameters: Mapping[str, Any]
    account: str
    region: str
    find: Find = find_nothing

    def text(self, name: str) -> str:
        """Return a text parameter; empty when it is absent."""
        value = self.parameters.get(name)
        return value if isinstance(value, str) else ""

    def arn(self, service: str, resource: str) -> str:
        """Return an ARN in the request's region and account."""
        return make_arn(service, self.region, self.account, resource)


@dataclass(frozen=True, slots=True)
class RequiredPermission:
    """An action that a request needs. `resources` is None when the action's types and the parameters give them."""

    action: str
    resources: tuple[str, ...] | None = None
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
