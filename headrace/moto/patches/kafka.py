"""MSK: a cluster without a policy has none to read."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
from typing import Any


def report_missing_policies(module: Any) -> None:
    """Answer NotFoundException for the policy of a cluster that has none: moto answers an empty text."""
    from moto.kafka.exceptions import NotFoundException

    backend = module.KafkaBackend
    get = backend.get_cluster_policy

    @functools.wraps(get)
    def get_cluster_policy(self: Any, cluster_arn: str) -> Any:
        policy, version = get(self, cluster_arn)
        if not policy:
            # The sentence is moto's for DeleteClusterPolicy.
            raise NotFoundException(f"Resource not found: {cluster_arn}")
        return policy, version

    backend.get_cluster_policy = get_cluster_policy
