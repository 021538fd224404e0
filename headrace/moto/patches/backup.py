"""AWS Backup: a deleted plan can be created again."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
from typing import Any


def forget_deleted_plans(module: Any) -> None:
    """Allow a deleted plan to be created again."""
    delete = module.BackupBackend.delete_backup_plan

    @functools.wraps(delete)
    def delete_backup_plan(self: Any, backup_plan_id: str) -> Any:
        gone = delete(self, backup_plan_id)
        # The deleted plan would prevent an equal new one.
        self.plans.pop(backup_plan_id, None)
        return gone

    module.BackupBackend.delete_backup_plan = delete_backup_plan
