"""Gives Redshift clusters an address that answers: a PostgreSQL in the data directory, or the user's own."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

from headrace.core.ports.warehouses import ClusterSpec, WarehouseError, WarehouseUnavailable
from headrace.moto.current_cloud import CURRENT


def patch(module: Any) -> None:
    """Replace moto's invented endpoint and credentials, and drop a cluster's tables when it is deleted."""
    cluster: Any = module.Cluster
    backend: Any = module.RedshiftBackend
    made_up = cluster.endpoint.fget
    delete, modify = backend.delete_cluster, backend.modify_cluster

    def endpoint(self: Any) -> dict[str, Any]:
        # The answer to a deletion shows the endpoint once more.
        is_gone = self.redshift_backend.clusters.get(self.cluster_identifier) is not self
        address = (
            None
            if CURRENT.warehouses is None or is_gone
            else CURRENT.warehouses.endpoint_of(_spec(self))
        )
        return made_up(self) if address is None else {"Address": address[0], "Port": address[1]}

    def modify_cluster(self: Any, **arguments: Any) -> Any:
        if arguments.get("new_cluster_identifier"):
            # moto would create another cluster, without the old one's tables.
            from moto.redshift.exceptions import RedshiftClientError

            raise RedshiftClientError(
                "InvalidParameterValue", "headrace does not rename Redshift clusters yet."
            )
        return modify(self, **arguments)

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

    made_up_login = backend.get_cluster_credentials

    def get_cluster_credentials(
        self: Any, cluster_identifier: str, db_user: str, auto_create: bool, duration_seconds: int
    ) -> dict[str, Any]:
        login = made_up_login(self, cluster_identifier, db_user, auto_create, duration_seconds)
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

    cluster.endpoint = property(endpoint)
    backend.delete_cluster, backend.modify_cluster = delete_cluster, modify_cluster
    backend.get_cluster_credentials = get_cluster_credentials


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
