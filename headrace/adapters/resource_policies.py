"""Finds the resource-based policy of a bucket, a queue, a key, a function, a role and so on.

For the services that are used most, policies are read from the services' state. For others they are read by the
service's own operation, in process; those of moto's services are cached until a policy changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.protocols.service import ServiceApi
from headrace.core.ports import ControlPlane
from headrace.permissions.policies.document import UnreadableDocument
from headrace.permissions.policies.model import Access, NamedPolicy

MOST_KEPT = 10_000
_OWNED = frozenset({"lambda"})
# Returns the policy of a resource by ARN, without a request; None when it has none.
Lookup = Callable[[str], str | None]
Read = Callable[[ControlPlane, "ArnParts"], Any]


class ArnParts:
    """The parts of an ARN, and the account and region of its resource."""

    def __init__(self, access: Access) -> None:
        _, _, self.service, self.region, account, self.resource = access.resource.split(":", 5)
        self.arn = access.resource
        self.account = account or access.account
        self.name = self.resource.rpartition("/")[2].rpartition(":")[2]

    def ask(
        self, control: ControlPlane, operation: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Call an operation of the resource's service, in its account and region. Raises AwsError."""
        account, region = self.account or None, self.region or None
        return control.call(self.service, operation, params, account=account, region=region)


class ResourcePolicies:
    """Reads policies of resources. Thread-safe.

    Args:
        control: calls the services.
        trust_policy: returns the trust policy of a role.
        owned: the services that headrace owns, by name.
        held: functions that read policies from moto's state, by service.
        version: returns a number that grows with each change of a policy.
    """

    def __init__(
        self,
        control: ControlPlane,
        *,
        trust_policy: Callable[[str], str | None],
        owned: Mapping[str, ServiceApi],
        held: Mapping[str, Lookup],
        version: Callable[[], int],
    ) -> None:
        self._control = control
        self._trust_policy = trust_policy
        self._owned = owned
        self._held = held
        self._version = version
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[int, NamedPolicy | None]] = {}

    def of(self, access: Access) -> NamedPolicy | None:
        """Return the policy of an access's resource; None when it has none or does not exist."""
        if access.resource.count(":") < 5 or "*" in access.resource:
            return None
        named = ArnParts(access)
        if named.service == "iam":
            is_trust = access.action.startswith("sts:")
            return _policy("trust policy", self._trust_policy(named.arn) if is_trust else None)
        api = self._owned.get(named.service)
        lookup = self._held.get(named.service) if api is None else api.policy_of
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

    def _read(self, named: ArnParts) -> NamedPolicy | None:
        try:
            text = _READERS[named.service](self._control, named)
        except (AwsError, LookupError):
            return None  # no policy, or no such resource, which the service itself reports
        return _policy(f"{named.service} policy", text)


def _policy(name: str, text: Any) -> NamedPolicy | None:
    if not text or text == "{}":
        return None
    try:
        return NamedPolicy.of(name, str(text))
    except UnreadableDocument:
        return None


def _function(control: ControlPlane, named: ArnParts) -> Any:
    parts = named.resource.split(":")
    if parts[0] != "function":
        return None
    params = {"FunctionName": parts[1], **({"Qualifier": parts[2]} if len(parts) > 2 else {})}
    return named.ask(control, "GetPolicy", params)["Policy"]


def _repository(control: ControlPlane, named: ArnParts) -> Any:
    params = {"repositoryName": named.resource.removeprefix("repository/")}
    return named.ask(control, "GetRepositoryPolicy", params)["policyText"]


def _secret(control: ControlPlane, named: ArnParts) -> Any:
    params = {"SecretId": named.arn}
    answer = named.ask(control, "GetResourcePolicy", params)
    return answer.get("ResourcePolicy")


def _table(control: ControlPlane, named: ArnParts) -> Any:
    params = {"ResourceArn": named.arn}
    return named.ask(control, "GetResourcePolicy", params).get("Policy")


_READERS: dict[str, Read] = {
    "lambda": _function,
    "ecr": _repository,
    "secretsmanager": _secret,
    "dynamodb": _table,
}
