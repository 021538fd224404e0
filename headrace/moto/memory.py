"""Answers headrace's own services about moto's state: policies, keys, tags, principals, queues.

A poller checks its queue two or three times a second while the queue is empty. A ReceiveMessage would take half a
millisecond of parsing and serialising; this takes microseconds. Tags are read without a request: moto's services read
them during a request of their own, which another request must not interrupt.

Looks up access keys that moto's IAM and STS have created: users' keys, and those of assumed roles.

Reads from moto which customer managed key encrypts a resource, and the grants on a key.

It makes no request, because moto's services use it during a request of their own. moto must be loaded.

Reads policies of queues, topics, event buses, log groups and keys from moto's memory, without a request.

moto's services use it during a request of their own, which another request must not interrupt. moto must be loaded.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import json

# ruff: noqa: SLF001 - moto stores a topic's tags in a private attribute
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from typing import Any, cast

from headrace.aws.calls.operation import is_restricted
from headrace.aws.signatures.access_keys import AccessKey
from headrace.core.arn import partition_of
from headrace.moto import principals
from headrace.moto.current_cloud import CURRENT
from headrace.moto.principals import exists_for
from headrace.permissions.policies.document import UnreadableDocument
from headrace.permissions.policies.evaluate import denial, evaluate
from headrace.permissions.policies.model import Access, NamedPolicy, Policies, Principal
from headrace.permissions.requests.keys import Grant


def find_access_key(key_id: str) -> AccessKey | None:
    """Return an active key; None when no key has that id. moto must be loaded.

    `headrace.aws.signatures.access_keys` reads the keys of headrace's own sessions, whose tokens name their owner.
    """
    from moto.iam.models import iam_backends
    from moto.sts.models import sts_backends

    for account, partitions in list(iam_backends.items()):
        for backend in list(partitions.values()):
            key = backend.access_keys.get(key_id)
            if key is not None and key.user_name is not None:
                return _of_user(account, backend, key)
    for account, partitions in list(sts_backends.items()):
        for backend in list(partitions.values()):
            session = backend.get_assumed_role_from_access_key(key_id)
            if session is not None:
                return _of_session(account, session)
    return None


def account_of(key_id: str) -> str | None:
    """Return the account of a user's key, active or not; None when no user has that key. moto must be loaded."""
    if not key_id.startswith(("AKIA", "ASIA", "LSIA")):
        return None
    from moto.iam.models import iam_backends

    # Not moto's own lookup, which creates a backend for every partition.
    for account, regions in list(iam_backends.items()):
        if any(key_id in backend.access_keys for backend in list(regions.values())):
            return str(account)
    return None


def _of_user(account: str, backend: Any, key: Any) -> AccessKey | None:
    user = backend.users.get(key.user_name)
    # The backend's own list in moto keeps deleted keys.
    if user is None or key not in user.access_keys or key.status != "Active":
        return None
    return AccessKey(key.access_key_id, key.secret_access_key, account=account)


def _of_session(account: str, session: Any) -> AccessKey:
    expires = session.expiration
    aware = expires if expires.tzinfo is not None else expires.replace(tzinfo=UTC)
    return AccessKey(
        session.access_key_id,
        session.secret_access_key,
        session.session_token,
        account,
        round(aware.timestamp() * 1000),
    )


def tags_in_moto(arn: str) -> dict[str, str]:
    """Return the tags of a role, a user, a queue, a topic, a key, a secret or a table; none for other types."""
    _, _, service, region, account, resource = arn.split(":", 5)
    read = _READERS.get(service)
    if read is None:
        return {}
    try:
        return _pairs(read(account, region, resource, arn))
    except (KeyError, AttributeError):
        return {}


def _pairs(tags: Any) -> dict[str, str]:
    if isinstance(tags, Mapping):
        return {str(key): str(value) for key, value in cast("Mapping[Any, Any]", tags).items()}
    return {str(tag["Key"]): str(tag.get("Value") or "") for tag in tags or ()}


def _holder(account: str, region: str, resource: str, arn: str) -> Any:
    holder = principals.holder_of_arn(arn)
    return {} if holder is None else principals.tags_of(holder)


def _queue(account: str, region: str, resource: str, arn: str) -> Any:
    from moto.sqs.models import sqs_backends

    return sqs_backends[account][region].queues[resource].tags


def _topic(account: str, region: str, resource: str, arn: str) -> Any:
    from moto.sns.models import sns_backends

    topics: Any = sns_backends[account][region].topics
    return topics[arn]._tags


def _key(account: str, region: str, resource: str, arn: str) -> Any:
    from moto.kms.models import kms_backends

    backend: Any = kms_backends[account][region]
    return backend.tagger.get_tag_dict_for_resource(resource.removeprefix("key/"))


def _secret(account: str, region: str, resource: str, arn: str) -> Any:
    from moto.secretsmanager.models import secretsmanager_backends

    secrets: Any = secretsmanager_backends[account][region].secrets
    return secrets[arn].tags


def _table(account: str, region: str, resource: str, arn: str) -> Any:
    from moto.dynamodb.models import dynamodb_backends

    tables: Any = dynamodb_backends[account][region].tables
    return tables[resource.removeprefix("table/").partition("/")[0]].tags


_READERS: dict[str, Callable[[str, str, str, str], Any]] = {
    "iam": _holder,
    "sqs": _queue,
    "sns": _topic,
    "kms": _key,
    "secretsmanager": _secret,
    "dynamodb": _table,
}


def queue_is_empty(account: str, region: str, name: str) -> bool:
    """Whether a queue has no message that could be received now. Raises LookupError for a missing queue."""
    from moto.sqs.models import sqs_backends

    # Plain dictionary access: moto's own lookup would create a backend for an unused region.
    of_account: Any = cast("Any", sqs_backends).get(account)
    backend: Any = None if of_account is None else of_account.get(region)
    queue: Any = None if backend is None else backend.queues.get(name)
    if queue is None:
        raise LookupError(name)
    # Another thread may add one meanwhile: then the next check finds it.
    return bool(queue.store.is_empty(CURRENT.clock.now_ms()))


class MotoMemory:
    """Reads moto's state, which is loaded first unless a method says otherwise. Thread-safe.

    All methods except `queue_is_empty` raise AwsError when the loading takes too long.

    Attributes:
        is_ready: returns whether moto is loaded.
        policies_version: grows with each change of a policy.
        keys_version: grows with each change of a policy or a key.
    """

    def __init__(self, warm_up: Callable[[], None], is_ready: Callable[[], bool]) -> None:
        self._warm_up = warm_up
        self.is_ready = is_ready
        # Counters of changes, which the engine counts.
        self.policies_version = self.keys_version = 0

    def policy_of(self, arn: str) -> str | None:
        """Return the policy, as JSON, of a queue, a topic, an event bus, a log group or a key; None without one."""
        self._warm_up()
        return policy_in_moto(arn)

    def key_of(self, arn: str) -> str:
        """Return the ARN of the customer managed key of a queue, a topic or a secret; empty without one."""
        self._warm_up()
        return key_in_moto(arn)

    def key_named(self, key_id: str, account: str, region: str) -> str:
        """Return the ARN of the customer managed key with an id, an alias or an ARN; empty for any other."""
        self._warm_up()
        return key_arn(key_id, account, region)

    def tags_of(self, arn: str) -> dict[str, str]:
        """Return a resource's tags by its ARN, for the types that headrace reads."""
        self._warm_up()
        return tags_in_moto(arn)

    def state_of_key(self, key_id: str, account: str, region: str) -> tuple[str, str]:
        """Return the ARN and the state of a key; "" and "" when it does not exist."""
        self._warm_up()
        return state_of_key(key_id, account, region)

    def grants_on(self, key: str) -> list[Grant]:
        """Return each grant on a key."""
        self._warm_up()
        return list(grants_on(key))

    def has_principal(self, account: str, name: str) -> bool:
        """Whether IAM has a policy's principal in `account`, by ARN or unique id. Waits until moto is loaded."""
        if ":root" in name or name == "*":
            return True
        self._warm_up()
        return exists_for(account)(name)

    def queue_is_empty(self, account: str, region: str, name: str) -> bool:
        """Whether a queue has no receivable message, or moto is not loaded yet. Raises LookupError."""
        return not self.is_ready() or queue_is_empty(account, region, name)

    def access_key(self, key_id: str) -> AccessKey | None:
        """Return a key that IAM or STS has created; None when it does not exist. Waits until moto is loaded."""
        self._warm_up()
        return find_access_key(key_id)


_ARN_PARTS = 6


def key_arn(key_id: str, account: str, region: str) -> str:
    """Return the ARN of the customer managed key with an id, an alias or an ARN; empty for any other."""
    key = None if not key_id or "alias/aws/" in key_id else _key_of(key_id, account, region)
    if key is None:
        return ""
    # moto creates some AWS managed keys like a customer's, with their alias.
    is_own = key.key_manager != "CUSTOMER" or any("alias/aws/" in name for name in key.aliases)
    return "" if is_own else str(key.arn)


def key_in_moto(arn: str) -> str:
    """Return the ARN of the customer managed key of a queue, a topic, a secret or a table; empty without one."""
    _, _, service, region, account, resource = arn.split(":", 5)
    try:
        return _key_in_moto(service, arn, account, region, resource)
    except LookupError:
        return ""  # in an account or a Region that has nothing


def _key_in_moto(service: str, arn: str, account: str, region: str, resource: str) -> str:
    held: Any = None
    if service == "sqs":
        from moto.sqs.models import sqs_backends

        held = _backend(sqs_backends, account, region).queues.get(resource)
    elif service == "sns":
        from moto.sns.models import sns_backends

        held = _backend(sns_backends, account, region).topics.get(arn)
    elif service == "secretsmanager":
        from moto.secretsmanager.models import secretsmanager_backends

        secret: Any = _backend(secretsmanager_backends, account, region).secrets.get(arn)
        return "" if secret is None else key_arn(str(secret.kms_key_id or ""), account, region)
    elif service == "dynamodb":
        return key_arn(_key_of_table(account, region, resource), account, region)
    key_id = "" if held is None else str(getattr(held, "kms_master_key_id", "") or "")
    return key_arn(key_id, account, region)


def _key_of_table(account: str, region: str, resource: str) -> str:
    from moto.dynamodb.models import dynamodb_backends

    name = resource.removeprefix("table/").partition("/")[0]
    table: Any = _backend(dynamodb_backends, account, region).tables.get(name)
    sse_specification: Any = (None if table is None else table.sse_specification) or {}
    return (
        str(sse_specification.get("KMSMasterKeyId") or "")
        if sse_specification.get("Enabled")
        else ""
    )


def grants_on(key: str) -> Iterator[Grant]:
    """Yield each grant on a key."""
    from moto.kms.models import kms_backends

    region, account, resource = key.split(":", 5)[3:]
    key_there: Any = kms_backends[account][region].keys.get(resource.removeprefix("key/"))
    for grant in () if key_there is None else list(key_there.grants.values()):
        constraints: Any = grant.constraints or {}
        equals = constraints.get("EncryptionContextEquals")
        yield Grant(
            str(grant.grantee_principal),
            tuple(grant.operations),
            None if equals is None else dict(equals),
            dict(constraints.get("EncryptionContextSubset") or {}),
        )


def state_of_key(key_id: str, account: str, region: str) -> tuple[str, str]:
    """Return the ARN and the state (`Enabled`, `Disabled`, `PendingDeletion`, ...) of a key; "" and "" for none.

    This includes AWS managed keys. `key_id` is an id, an alias, or an ARN of either; KMS finds an ARN of another region
    in that region alone, so that no service uses such a key.
    """
    if key_id.startswith("arn:") and key_id.split(":")[3:4] != [region]:
        return "", ""
    key = _key_of(key_id, account, region)
    return ("", "") if key is None else (str(key.arn), str(key.key_state))


def _key_of(key_id: str, account: str, region: str) -> Any:
    """Return moto's key with an id, an alias or an ARN, whose account and region apply; None for none."""
    from moto.kms.models import kms_backends

    if key_id.startswith("arn:"):
        parts = key_id.split(":", 5)
        if len(parts) < _ARN_PARTS:
            return None
        region, account = parts[3:5]
    try:
        backend: Any = kms_backends[account][region]
        return backend.keys[backend.any_id_to_key_id(key_id)]
    except (KeyError, AttributeError):
        return None


def _queue_policy(account: str, region: str, resource: str) -> Any:
    from moto.sqs.models import sqs_backends

    return _backend(sqs_backends, account, region).queues[resource].policy


def _topic_policy(account: str, region: str, resource: str) -> Any:
    from moto.sns.models import sns_backends

    arn = f"arn:{partition_of(region)}:sns:{region}:{account}:{resource}"
    return _backend(sns_backends, account, region).topics[arn].policy


def _bus(account: str, region: str, resource: str) -> Any:
    from moto.events.models import events_backends

    name = resource.removeprefix("event-bus/")
    return _backend(events_backends, account, region).event_buses[name].policy


def _group_or_destination(account: str, region: str, resource: str) -> Any:
    """A destination has a policy of its own; the others are the account's, and a group's is all of them together."""
    from moto.logs.models import logs_backends

    backend = _backend(logs_backends, account, region)
    if resource.startswith("destination:"):
        arn = f"arn:{partition_of(region)}:logs:{region}:{account}:{resource}"
        return backend.destinations[arn].access_policy
    statements: list[Any] = []
    for policy in list(backend.resource_policies.values()):
        value: Any = json.loads(policy.policy_document).get("Statement", [])
        statements += cast("list[Any]", value if isinstance(value, list) else [value])
    return {"Version": "2012-10-17", "Statement": statements} if statements else None


def _backend(backends: Any, account: str, region: str) -> Any:
    return backends[account][region]


def _key_policy(account: str, region: str, resource: str) -> Any:
    from moto.kms.models import kms_backends

    return _backend(kms_backends, account, region).keys[resource.removeprefix("key/")].policy


def _api(account: str, region: str, resource: str) -> Any:
    """REST APIs: their policies may write `execute-api:/STAGE/METHOD/PATH` for the ARN of a method."""
    from moto.apigateway.models import apigateway_backends

    api_id = resource.partition("/")[0]
    policy = _backend(apigateway_backends, account, region).apis[api_id].policy
    text = policy if isinstance(policy, str) else json.dumps(policy)
    arn = f"arn:{partition_of(region)}:execute-api:{region}:{account}:{api_id}/"
    return text.replace('"execute-api:/', f'"{arn}') if policy else None


_POLICY_READERS: dict[str, Callable[[str, str, str], Any]] = {
    "sqs": _queue_policy,
    "sns": _topic_policy,
    "events": _bus,
    "logs": _group_or_destination,
    "kms": _key_policy,
    "execute-api": _api,
}


def policy_in_moto(arn: str) -> str | None:
    """Return the policy, as JSON, of a resource of one of these services by its ARN; None without one."""
    _, _, service, region, account, resource = arn.split(":", 5)
    try:
        policy = _POLICY_READERS[service](account, region, resource)
    except (KeyError, LookupError):
        return None
    if not policy:
        return None
    return policy if isinstance(policy, str) else json.dumps(policy)


# Whether a resource of another account lets a caller in. moto looks only in the caller's own account. The gateway has
# already checked users and roles; the account itself needs no permission for its own resources, but another account's
# resource policy must allow it, whatever `--iam` says. Source:
# docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic-cross-account.html.


def refusal_of(response: Any, action: str, arn: str) -> str:
    """Return why a caller may not act in another account; empty when it may, or the gateway has decided."""
    key = str(response.get_access_key())
    if is_restricted(key) and _has_owner(key):
        return ""
    caller = str(response.current_account)
    root = f"arn:{partition_of(str(response.region))}:iam::{caller}:root"
    principal = Principal("root", root, caller, root)
    access = Access(action, arn, arn.split(":")[4])
    decision = evaluate(principal, access, Policies(resource=_named_policy(arn)))
    return "" if decision.allowed else denial(principal, access, decision)


def _has_owner(key: str) -> bool:
    """Whether a key belongs to a session or a user; an unknown key counts as the account itself."""
    if CURRENT.sessions is not None and CURRENT.sessions.account_of(key) is not None:
        return True
    access_keys = (backend.access_keys.get(key) for _, backend in principals.iam_backends())
    return any(one is not None and one.user_name is not None for one in access_keys)


def _named_policy(arn: str) -> NamedPolicy | None:
    text = policy_in_moto(arn)
    try:
        return None if text is None else NamedPolicy.of("resource policy", text)
    except UnreadableDocument:
        return None
