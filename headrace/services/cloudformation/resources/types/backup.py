"""AWS Backup: vaults and plans."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    list_removed_tags,
)


def _vault(values: Values) -> str:
    scope = values.context.region, values.context.account
    return make_arn("backup", *scope, f"backup-vault:{values.id}")


def _has_gone(name: str) -> Callable[[Values], bool]:
    """Return whether an update removes tags."""
    return lambda values: list_removed_tags(name)(values) is not None


DECLARED = [
    DeclaredType(
        "AWS::Backup::BackupVault",
        "backup",
        create=[Call("CreateBackupVault")],
        id="BackupVaultName",
        update=[
            Call(
                "TagResource",
                {"ResourceArn": _vault, "Tags": "BackupVaultTags"},
                only=(),
                when="BackupVaultTags",
            ),
            Call(
                "UntagResource",
                {"ResourceArn": _vault, "TagKeyList": list_removed_tags("BackupVaultTags")},
                only=(),
                only_if=_has_gone("BackupVaultTags"),
            ),
        ],
        delete=[Call("DeleteBackupVault", {"BackupVaultName": "@id"})],
        name="BackupVaultName",
        name_length=50,
    ),
    DeclaredType(
        "AWS::Backup::BackupPlan",
        "backup",
        create=[Call("CreateBackupPlan")],
        id="@answer.BackupPlanId",
        delete=[Call("DeleteBackupPlan", {"BackupPlanId": "@id"})],
        names={"BackupPlanRule": "Rules", "TargetBackupVault": "TargetBackupVaultName"},
        attributes={"BackupPlanId": "@id"},
    ),
]
