"""Imports and patches moto, and clears its state, as in a new process."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from typing import Any, cast

from headrace.aws.protocols.moto_imports import load_moto
from headrace.moto.patching import Patches, patch_at_start, watch_imports


def start_empty(patches: Patches) -> None:
    """Import and patch moto, and empty it. The caller holds moto's lock and the import lock."""
    watch_imports(patches)
    load_moto()
    patch_at_start(patches)
    from moto.core.base_backend import AccountSpecificBackend, BackendDict
    from moto.core.config import default_user_config

    # AWS managed policies (AdministratorAccess, ...) exist from the start, as on AWS.
    iam: Any = cast("Any", default_user_config)["iam"]
    iam["load_aws_managed_policies"] = True
    accounts: Any = AccountSpecificBackend
    accounts._generate_regions = _regions  # noqa: SLF001 - botocore's list lacks regions that AWS has since
    backends: Any = BackendDict
    for instance in list(backends._instances):  # noqa: SLF001 - moto's own reset creates all of them first
        instance.clear()
    backends._instances.clear()  # noqa: SLF001


def _regions(backends: Any, service: str) -> list[str]:
    """Return all regions of a service, in every partition; those of EC2 too, which every region has."""
    session = backends.get_session()
    return [
        region
        for partition in session.get_available_partitions()
        for region in sorted(
            {
                *session.get_available_regions(service, partition_name=partition),
                *session.get_available_regions("ec2", partition_name=partition),
            }
        )
    ]
