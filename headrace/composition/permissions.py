"""Builds the access keys that a cloud accepts, and the judge of callers' permissions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.adapters.resource_keys import ResourceKeys
from headrace.adapters.resource_names import ResourceNames
from headrace.adapters.resource_policies import ResourcePolicies
from headrace.adapters.resource_tags import ResourceTags
from headrace.aws.signatures.access_keys import KeyRing, read_keys, secrets_of
from headrace.aws.signatures.sessions import RoleSessions
from headrace.composition.foundation import Foundation
from headrace.composition.moto import MotoServices
from headrace.composition.services import Services
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.moto.memory.iam import trust_policy_of
from headrace.permissions.decisions.decisions import Judge
from headrace.services.iam.callers import MotoUsersAndRoles


def build_key_ring(
    config: Config, *, ids: Ids, moto: MotoServices, sessions: RoleSessions
) -> KeyRing:
    """Return the keys that `--auth` accepts."""
    return KeyRing(
        secrets_of(config.data_dir, ids),
        listed=None if config.auth_keys is None else read_keys(config.auth_keys),
        others=moto.held.access_key,
        has_others=lambda: moto.ready,
        sessions=sessions,
    )


def build_judge(base: Foundation, services: Callable[[], Services]) -> Judge:
    """Return the judge of callers' permissions; it calls `services` only when there are requests."""
    moto = base.moto
    people = MotoUsersAndRoles(
        base.sessions,
        is_ready=lambda: moto.ready,
        load=moto.warm_up,
        version=lambda: moto.policies_version,
    )
    policies = ResourcePolicies(
        base.gateway,
        trust_policy=trust_policy_of,
        held={
            "kinesis": lambda arn: services().kinesis.policy_of(arn),
            "s3": lambda arn: services().s3.policy_of(arn),
            # Read from moto's state directly: moto's services need them too, in the middle of their requests.
            **dict.fromkeys(("sqs", "sns", "events", "logs", "kms"), moto.held.policy_of),
        },
        version=lambda: moto.policies_version,
    )
    judge = Judge(
        base.config.iam,
        clock=base.clock,
        sessions=base.sessions,
        people=people,
        resource_policy=policies.of,
        find=ResourceNames(base.gateway, _resource_keys(base, services).of).find,
        grants=moto.held.grants_on,
        tags=ResourceTags(base.gateway, held=moto.held.tags_of).of,
        account=base.config.account_id,
        region=base.config.region,
    )
    moto.before_policies_change = judge.settle
    return judge


def _resource_keys(base: Foundation, services: Callable[[], Services]) -> ResourceKeys:
    """Return the object that finds the KMS key of a resource."""

    def bucket(name: str) -> tuple[Mapping[str, Any], str, str]:
        found = services().s3.bucket(name)
        return found.configurations, found.account, found.region

    return ResourceKeys(
        stream_key=lambda arn: services().kinesis.key_of(arn),
        bucket=bucket,
        object_encryption=lambda name, key: services().s3.object(name, key).encryption,
        upload_encryption=lambda name, key, upload: (
            services().s3.uploads.find(name, key, upload).encryption
        ),
        delivery_stream_key=lambda arn: services().firehose.key_of(arn),
        held=base.moto.held.key_of,
        resolved=base.moto.held.key_named,
    )
