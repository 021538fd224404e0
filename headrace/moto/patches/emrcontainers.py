"""EMR on EKS: a virtual cluster holds a namespace of one EKS cluster, for as long as it lives; its tags change."""

from __future__ import annotations

from typing import Any


def hold_namespaces(module: Any) -> None:
    """Let a virtual cluster hold its namespace in its own EKS cluster, until it is deleted.

    moto lets it hold that name in every EKS cluster, and for ever. Documented: API_VirtualCluster, a virtual cluster
    maps to one namespace on an EKS cluster. The sentence is AWS's: astronomer/astronomer-providers#410.
    """

    def create_virtual_cluster(self: Any, **params: Any) -> Any:
        place = _place_of(params["container_provider"])
        for cluster in self.virtual_clusters.values():
            if cluster.state != "TERMINATED" and _place_of(cluster.container_provider) == place:
                raise module.ValidationException(
                    "A virtual cluster already exists in the given namespace"
                )
        cluster = module.VirtualCluster(
            **params,
            account_id=self.account_id,
            region_name=self.region_name,
            aws_partition=self.partition,
        )
        cluster.created_at = module.utcnow()  # moto has the midnight before
        self.virtual_clusters[cluster.id] = cluster
        self.virtual_cluster_count += 1
        return cluster

    module.EMRContainersBackend.create_virtual_cluster = create_virtual_cluster


def add_tag_calls(urls: Any) -> None:
    """Add the three calls that change and list the tags of virtual clusters."""
    from moto.core.responses import ActionResult
    from moto.emrcontainers.responses import EMRContainersResponse

    response: Any = EMRContainersResponse

    def tag_resource(self: Any) -> ActionResult:
        cluster = _tagged(self)
        cluster.tags = {**(cluster.tags or {}), **self._get_param("tags")}
        return ActionResult({})

    def untag_resource(self: Any) -> ActionResult:
        cluster = _tagged(self)
        keys = self._get_param("tagKeys")
        cluster.tags = {k: v for k, v in (cluster.tags or {}).items() if k not in keys}
        return ActionResult({})

    def list_tags_for_resource(self: Any) -> ActionResult:
        return ActionResult({"tags": _tagged(self).tags or {}})

    for call in (tag_resource, untag_resource, list_tags_for_resource):
        setattr(response, call.__name__, call)
    urls.url_paths["{0}/tags/(?P<resourceArn>.+)$"] = response.dispatch


def _tagged(response: Any) -> Any:
    """Return the virtual cluster that a request names by its ARN. Raises ResourceNotFoundException."""
    from moto.emrcontainers.exceptions import ResourceNotFoundException

    arn = response._get_param("resourceArn")
    for cluster in response.emrcontainers_backend.virtual_clusters.values():
        if cluster.arn == arn:
            return cluster
    raise ResourceNotFoundException(f"Resource {arn} doesn't exist.")  # assumed


def _place_of(provider: dict[str, Any]) -> tuple[str, str]:
    """Return the EKS cluster and the namespace in it."""
    return provider["id"], provider["info"]["eksInfo"]["namespace"]
