"""Finds the policy of the resource that somebody accesses: of a bucket, a queue, a key, a function, a role and so on.

Policies of the services that are asked most are looked up where they are held. Each other one is read by its service's
own operation, in process; of moto's services it is kept until a policy changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from headrace.aws.errors import AwsError
from headrace.core.ports import ControlPlane
from headrace.permissions.document import UnreadableDocument
from headrace.permissions.model import Access, NamedPolicy

MOST_KEPT = 10_000
_OWNED = frozenset({"lambda"})
# Gives the policy of the resource of an ARN without a request; None for none.
Lookup = Callable[[str], str | None]
Read = Callable[[ControlPlane, "Named"], Any]


class Named:
    """The parts of an ARN, and where its resource is."""

    def __init__(self, access: Access) -> None:
        _, _, self.service, self.region, account, self.resource = access.resource.split(":", 5)
        self.arn = access.resource
        self.account = account or access.account
        self.name = self.resource.rpartition("/")[2].rpartition(":")[2]

    def ask(
        self, control: ControlPlane, operation: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Call an operation of its service, where it is. Raises AwsError."""
        account, region = self.account or None, self.region or None
        return control.call(self.service, operation, params, account=account, region=region)


class ResourcePolicies:
    """Reads policies of resources. Thread-safe.

    Args:
        control: asks the services.
        trust_policy: gives the trust policy of a role.
        held: looks policies up, by service.
        version: a number that grows with each change of a policy.
    """

    def __init__(
        self,
        control: ControlPlane,
        *,
        trust_policy: Callable[[str], str | None],
        held: Mapping[str, Lookup],
        version: Callable[[], int],
    ) -> None:
        self._control = control
        self._trust_policy = trust_policy
        self._held = held
        self._version = version
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[int, NamedPolicy | None]] = {}

    def of(self, access: Access) -> NamedPolicy | None:
        """Return the policy of the resource of an access; None where it has none, or is not there."""
        if access.resource.count(":") < 5 or "*" in access.resource:
            return None
        named = Named(access)
        if named.service == "iam":
            is_trust = access.action.startswith("sts:")
            return _policy("trust policy", self._trust_policy(named.arn) if is_trust else None)
        lookup = self._held.get(named.service)
        if lookup is not None:
            return _policy(f"{named.service} policy", lookup(named.arn))
        if named.service not in _READERS:
            return None
        if named.service in _OWNED:
            return self._read(named)
        version = self._version()
        with self._lock:
            kept = self._kept.get(named.arn)
        if kept is not None and kept[0] == version:
            return kept[1]
        policy = self._read(named)
        with self._lock:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[named.arn] = (version, policy)
        return policy

    def _read(self, named: Named) -> NamedPolicy | None:
        try:
            text = _READERS[named.service](self._control, named)
        except (AwsError, LookupError):
            return None  # no policy, or no such resource, which the service itself will say
        return _policy(f"{named.service} policy", text)


def _policy(name: str, text: Any) -> NamedPolicy | None:
    if not text or text == "{}":
        return None
    try:
        return NamedPolicy.of(name, str(text))
    except UnreadableDocument:
        return None


def _function(control: ControlPlane, named: Named) -> Any:
    parts = named.resource.split(":")
    if parts[0] != "function":
        return None
    params = {"FunctionName": parts[1], **({"Qualifier": parts[2]} if len(parts) > 2 else {})}
    return named.ask(control, "GetPolicy", params)["Policy"]


def _repository(control: ControlPlane, named: Named) -> Any:
    params = {"repositoryName": named.resource.removeprefix("repository/")}
    return named.ask(control, "GetRepositoryPolicy", params)["policyText"]


def _secret(control: ControlPlane, named: Named) -> Any:
    params = {"SecretId": named.arn}
    answer = named.ask(control, "GetResourcePolicy", params)
    return answer.get("ResourcePolicy")


def _table(control: ControlPlane, named: Named) -> Any:
    params = {"ResourceArn": named.arn}
    return named.ask(control, "GetResourcePolicy", params).get("Policy")


_READERS: dict[str, Read] = {
    "lambda": _function,
    "ecr": _repository,
    "secretsmanager": _secret,
    "dynamodb": _table,
}
