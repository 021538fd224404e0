"""Gives Redshift clusters an address that answers: a PostgreSQL in the data directory, or the user's own."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import functools
from typing import Any

from headrace.core.ports.warehouses import ClusterSpec, WarehouseError, WarehouseUnavailable
from headrace.moto.current_cloud import CURRENT


def patch(module: Any) -> None:
    """Replace moto's invented endpoint and credentials, and drop a cluster's tables when it is deleted."""
    cluster: Any = module.Cluster
    backend: Any = module.RedshiftBackend
    cluster.endpoint = property(_with_server(cluster.endpoint.fget))
    backend.delete_cluster = _with_tables(backend.delete_cluster)
    backend.modify_cluster = _without_renaming(backend.modify_cluster)
    backend.get_cluster_credentials = _with_login(backend.get_cluster_credentials)


def _with_server(made_up: Any) -> Any:
    """Return a cluster's endpoint: its server's, or moto's invented one where there is no server."""

    def endpoint(self: Any) -> dict[str, Any]:
        # The answer to a deletion shows the endpoint once more.
        is_gone = self.redshift_backend.clusters.get(self.cluster_identifier) is not self
        address = (
            None
            if CURRENT.warehouses is None or is_gone
            else CURRENT.warehouses.endpoint_of(_spec(self))
        )
        return made_up(self) if address is None else {"Address": address[0], "Port": address[1]}

    return endpoint


def _with_tables(delete: Any) -> Any:
    """Delete a cluster's tables with it."""

    @functools.wraps(delete)
    def delete_cluster(self: Any, **arguments: Any) -> Any:
        deleted = delete(self, **arguments)
        if CURRENT.warehouses is not None:
            CURRENT.warehouses.forget(
                "cluster",
                deleted.cluster_identifier,
                account=self.account_id,
                region=self.region_name,
            )
        return deleted

    return delete_cluster


def _without_renaming(modify: Any) -> Any:
    """Refuse a new name: moto would create another cluster, without the old one's tables."""

    @functools.wraps(modify)
    def modify_cluster(self: Any, **arguments: Any) -> Any:
        if arguments.get("new_cluster_identifier"):
            from moto.redshift.exceptions import RedshiftClientError

            raise RedshiftClientError(
                "InvalidParameterValue", "headrace does not rename Redshift clusters yet."
            )
        return modify(self, **arguments)

    return modify_cluster


def _with_login(made_up: Any) -> Any:
    """Give credentials with which the cluster's server lets its user in."""

    @functools.wraps(made_up)
    def get_cluster_credentials(
        self: Any, cluster_identifier: str, db_user: str, auto_create: bool, duration_seconds: int
    ) -> dict[str, Any]:
        login = made_up(self, cluster_identifier, db_user, auto_create, duration_seconds)
        warehouses, spec = CURRENT.warehouses, _spec(self.clusters[cluster_identifier])
        # Without a server, nobody logs in with any password.
        if warehouses is None or warehouses.endpoint_of(spec) is None:
            return login
        try:
            login["DbPassword"] = warehouses.issue_login(
                spec,
                login["DbUser"],
                acts_as=db_user,
                until_ms=round(login["Expiration"].timestamp() * 1000),
                makes=auto_create,
            )
        except (WarehouseError, WarehouseUnavailable) as error:
            from moto.redshift.exceptions import RedshiftClientError

            raise RedshiftClientError("UnsupportedOperation", str(error)) from error
        return login

    return get_cluster_credentials


def _spec(cluster: Any) -> ClusterSpec:
    """Return a cluster's creation parameters."""
    return ClusterSpec(
        "cluster",
        cluster.account_id,
        cluster.region,
        cluster.cluster_identifier,
        user=cluster.master_username or "awsuser",
        password=cluster.master_user_password or "",
        database=cluster.db_name,
        port=int(cluster.port),
        roles=tuple(cluster.iam_roles_arn),
    )
