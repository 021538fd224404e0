"""Builds the access keys that a cloud accepts, and the decisions on callers' permissions."""

from __future__ import annotations

from headrace.adapters.resource_keys import ResourceKeys
from headrace.adapters.resource_names import ResourceNames
from headrace.adapters.resource_policies import ResourcePolicies
from headrace.adapters.resource_tags import ResourceTags
from headrace.aws.signatures.access_keys import KeyRing, read_keys, secrets_of
from headrace.aws.signatures.sessions import RoleSessions
from headrace.composition.foundation import Foundation
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.moto.engine import MotoEngine
from headrace.moto.memory.iam import trust_policy_of
from headrace.permissions.decisions.decisions import Decisions
from headrace.services.iam.callers import MotoUsersAndRoles


def build_key_ring(
    config: Config, *, ids: Ids, moto: MotoEngine, sessions: RoleSessions
) -> KeyRing:
    """Return the keys that `--auth` accepts."""
    return KeyRing(
        secrets_of(config.data_dir, ids),
        listed=None if config.auth_keys is None else read_keys(config.auth_keys),
        others=moto.memory.access_key,
        has_others=lambda: moto.ready,
        sessions=sessions,
    )


def build_decisions(base: Foundation) -> Decisions:
    """Return the decisions on permissions. The gateway finds policies and keys of owned services' resources."""
    engine, gateway = base.moto.engine, base.gateway
    memory = engine.memory
    people = MotoUsersAndRoles(
        base.sessions,
        is_ready=lambda: engine.ready,
        load=engine.warm_up,
        version=lambda: memory.policies_version,
    )
    policies = ResourcePolicies(
        gateway,
        trust_policy=trust_policy_of,
        owned=gateway.owned,
        # Read from moto's state directly: moto's services need them too, in the middle of their requests.
        held=dict.fromkeys(
            ("sqs", "sns", "events", "logs", "kms", "execute-api"), memory.policy_of
        ),
        version=lambda: memory.policies_version,
    )
    keys = ResourceKeys(owned=gateway.owned, in_moto=memory.key_of, key_named=memory.key_named)
    return Decisions(
        base.config.iam,
        clock=base.clock,
        sessions=base.sessions,
        people=people,
        resource_policy=policies.of,
        find=ResourceNames(gateway, keys.of).find,
        grants=memory.grants_on,
        tags=ResourceTags(gateway, held=memory.tags_of).of,
        account=base.config.account_id,
        region=base.config.region,
    )
