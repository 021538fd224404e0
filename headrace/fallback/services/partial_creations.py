"""Removes what moto leaves behind when a creation fails half-way: Auto Scaling groups and database clusters."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
from typing import Any


def autoscaling(module: Any) -> None:
    """Patch `moto.autoscaling.models`, which looks for target groups after it has stored the group."""
    _whole(module.AutoScalingBackend, "create_auto_scaling_group", "autoscaling_groups")


def rds(module: Any) -> None:
    """Patch `moto.rds.models`, which checks a cluster's settings after it has stored the cluster."""
    _whole(module.RDSBackend, "create_db_cluster", "clusters")


def _whole(backend: Any, method: str, held: str) -> None:
    create = getattr(backend, method)

    @functools.wraps(create)
    def create_whole(self: Any, *args: Any, **named: Any) -> Any:
        before = set(getattr(self, held))
        try:
            return create(self, *args, **named)
        except Exception:
            for name in set(getattr(self, held)) - before:
                del getattr(self, held)[name]
            raise

    setattr(backend, method, create_whole)
