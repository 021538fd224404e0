"""Answers headrace's own services about moto's state: policies, keys, tags, principals, queues."""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.signatures.access_keys import AccessKey
from headrace.moto.memory.access_keys import find_access_key
from headrace.moto.memory.keys import grants_on, key_arn, key_in_moto, state_of_key
from headrace.moto.memory.policies import policy_in_moto
from headrace.moto.memory.principals import exists_for
from headrace.moto.memory.queues import queue_is_empty
from headrace.moto.memory.tags import tags_in_moto
from headrace.permissions.decisions.key_uses import Grant


class MotoMemory:
    """Reads moto's state, which is loaded first unless a method says otherwise. Thread-safe.

    All methods except `queue_is_empty` raise AwsError when the loading takes too long.

    Attributes:
        policies_version: grows with each change of a policy.
        keys_version: grows with each change of a policy or a key.
    """

    def __init__(self, warm_up: Callable[[], None], is_ready: Callable[[], bool]) -> None:
        self._warm_up = warm_up
        self._is_ready = is_ready
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
        return not self._is_ready() or queue_is_empty(account, region, name)

    def access_key(self, key_id: str) -> AccessKey | None:
        """Return a key that IAM or STS has created; None when it does not exist. Waits until moto is loaded."""
        self._warm_up()
        return find_access_key(key_id)
