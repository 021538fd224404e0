"""RDS: engines in capitals, automatic snapshots, subnet groups, and clusters whose creation fails."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
from collections.abc import Callable, MutableMapping
from typing import Any

from headrace.moto.patching import create_wholly
from headrace.moto.storage import pickles


def replace_automatic_snapshots(module: Any) -> None:
    """Let a second automatic snapshot within a minute replace the first: moto names them by the minute."""

    def again(create: Callable[..., Any], kept: str) -> Callable[..., Any]:
        @functools.wraps(create)
        def create_anew(self: Any, identifier: str, snapshot: str) -> Any:
            getattr(self, kept).pop(snapshot, None)
            return create(self, identifier, snapshot)

        return create_anew

    backend = module.RDSBackend
    backend.create_auto_snapshot = again(backend.create_auto_snapshot, "database_snapshots")
    backend.create_auto_cluster_snapshot = again(
        backend.create_auto_cluster_snapshot, "cluster_snapshots"
    )


_LOWERED = ("DBParameterGroupFamily", "Engine", "EngineName")


def lower_engines(module: Any) -> None:
    """Patch `moto.rds.responses`: an engine's name or family has any case, and is kept and shown in small letters.

    Source (observed): for engines, pull request 409 of aws-cloudformation-resource-providers-rds; for option groups and
    families, go-to-k/cdk-real-drift's issue of 2026-08-10.
    """

    def get(self: Any) -> Any:
        return self.__dict__["params"]

    def keep(self: Any, params: Any) -> None:
        for name in _LOWERED if isinstance(params, MutableMapping) else ():
            if isinstance(value := params.get(name), str):
                params[name] = value.lower()
        self.__dict__["params"] = params

    module.RDSResponse.params = property(get, keep)


def list_option_groups(module: Any) -> None:
    """Patch `moto.rds.responses`: without a name, every option group is listed, or none (documented)."""
    handler = module.RDSResponse
    describe = handler.describe_option_groups

    @functools.wraps(describe)
    def describe_option_groups(self: Any) -> Any:
        if not self.params.get("OptionGroupName"):
            if not self.backend.option_groups:
                return module.ActionResult({"OptionGroupsList": []})
            self.params["OptionGroupName"] = ""
        return describe(self)

    handler.describe_option_groups = describe_option_groups


def undo_partial_clusters(module: Any) -> None:
    """Patch `moto.rds.models`, which checks a cluster's settings after it has stored the cluster."""
    create_wholly(module.RDSBackend, "create_db_cluster", "clusters")


def keep_subnet_groups(module: Any) -> None:
    """Keep a subnet group when it is updated: moto removes it, and fails without one."""
    from moto.rds.exceptions import DBSubnetGroupNotFoundError

    modify = module.RDSBackend.modify_db_subnet_group

    @functools.wraps(modify)
    def modify_db_subnet_group(self: Any, subnet_name: str, *args: Any) -> Any:
        if subnet_name not in self.subnet_groups:
            raise DBSubnetGroupNotFoundError(subnet_name)
        group = modify(self, subnet_name, *args)
        self.subnet_groups[subnet_name] = group
        return group

    module.RDSBackend.modify_db_subnet_group = modify_db_subnet_group


def store_no_classes(_: Any) -> None:
    """Store RDS' collections without the mapping of classes to them, which is made again."""
    pickles.register_filter("rds", lambda _, state: {**state, "resource_map": {}})
    pickles.register_restorer("rds", _with_resource_map)


def _with_resource_map(backend: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return stored attributes with the collections by their classes: a class is no data."""
    known = vars(backend)
    by_class = {
        kind: state.get(name, known[name])
        for kind, collection in backend.resource_map.items()
        for name in known
        if known[name] is collection
    }
    return {**state, "resource_map": by_class}
