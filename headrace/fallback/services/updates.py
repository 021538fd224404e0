"""Adds update calls to services for which moto has only creations and deletions.

Each function patches the module that it is given, once that is imported: see `_LATER` in `__init__.py`. An update keeps
the rest of a resource: its ARN, its creation time, its runs, its tags.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from botocore import xform_name


def _as_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return members under moto's names of arguments and attributes."""
    return {xform_name(name): value for name, value in given.items()}


def assign(thing: Any, given: Mapping[str, Any], leave: Collection[str] = ()) -> None:
    """Set the attributes for the members of a request; an empty value empties the attribute."""
    for name, value in _as_arguments(given).items():
        if name not in leave and hasattr(thing, name) and value is not None:
            setattr(thing, name, value)


def _made_anew(make: Callable[..., Any], things: Any, key: str, given: Mapping[str, Any]) -> Any:
    """Create a resource again from these members alone, in place of the old one; return both."""
    before = things[key]
    arguments = _as_arguments(given)
    named = {name: arguments.get(name) for name in inspect.signature(make).parameters}
    del things[key]
    try:
        make(**named)
    except Exception:
        things[key] = before
        raise
    return before, things[key]


def autoscaling(module: Any) -> None:
    """Allow updates of a group's rebalancing and termination policies, which moto sets only at its creation."""
    response = module.AutoScalingResponse
    of_moto = response.update_auto_scaling_group

    def update_auto_scaling_group(self: Any) -> Any:
        answer = of_moto(self)
        name = self._get_param("AutoScalingGroupName")
        group = self.autoscaling_backend.autoscaling_groups[name]
        if (rebalance := self._get_bool_param("CapacityRebalance", None)) is not None:
            group.capacity_rebalance = rebalance
        if (policies := self._get_param("TerminationPolicies", None)) is not None:
            group.termination_policies = policies or ["Default"]
        return answer

    response.update_auto_scaling_group = update_auto_scaling_group


def glue(module: Any) -> None:
    """Allow updates of jobs, crawlers, triggers, connections and registries."""
    from moto.core.responses import ActionResult, EmptyResult
    from moto.core.utils import utcnow

    response = module.GlueResponse

    def update_job(self: Any) -> ActionResult:
        # Documented: a member that JobUpdate omits is removed, or gets its default.
        backend, name = self.glue_backend, self._get_param("JobName")
        backend.get_job(name)
        given = {**self._get_param("JobUpdate"), "Name": name}
        before, job = _made_anew(backend.create_job, backend.jobs, name, given)
        job.created_on, job.job_runs = before.created_on, before.job_runs
        return ActionResult({"JobName": name})

    def update_crawler(self: Any) -> EmptyResult:
        crawler = self.glue_backend.get_crawler(self._get_param("Name"))
        assign(crawler, self.parameters, leave=("name",))
        crawler.version += 1
        crawler.last_updated = utcnow()
        return EmptyResult()

    def update_trigger(self: Any) -> ActionResult:
        # Documented: TriggerUpdate replaces the whole trigger.
        trigger = self.glue_backend.get_trigger(self._get_param("Name"))
        given = self._get_param("TriggerUpdate")
        predicate = given.get("Predicate")
        trigger.predicate = module.Predicate(predicate) if predicate else None
        trigger.actions = [module.Action(each) for each in given.get("Actions") or []]
        trigger.schedule = given.get("Schedule")
        trigger.description = given.get("Description")
        trigger.event_batching_condition = given.get("EventBatchingCondition")
        return ActionResult({"Trigger": trigger.as_dict()})

    def update_connection(self: Any) -> EmptyResult:
        backend, name = self.glue_backend, self._get_param("Name")
        before = backend.get_connection(self._get_param("CatalogId"), name, None)
        given = {
            "CatalogId": before.catalog_id,
            "ConnectionInput": {**self._get_param("ConnectionInput"), "Name": name},
        }
        _, connection = _made_anew(backend.create_connection, backend.connections, name, given)
        connection.created_time = before.created_time
        return EmptyResult()

    def update_registry(self: Any) -> ActionResult:
        registry_id = self._get_param("RegistryId")
        name = registry_id.get("RegistryName") or registry_id["RegistryArn"].rpartition("/")[2]
        registry = self.glue_backend.registries.get(name)
        if registry is None:
            raise module.EntityNotFoundException(f"Registry is not found. RegistryName: {name}")
        registry.description, registry.updated_time = self._get_param("Description"), utcnow()
        return ActionResult({"RegistryName": name, "RegistryArn": registry.registry_arn})

    for update in (update_job, update_crawler, update_trigger, update_connection, update_registry):
        setattr(response, update.__name__, update)


_RESULTS = ("OutputLocation", "EncryptionConfiguration", "ExpectedBucketOwner", "AclConfiguration")
_ENGINE = {"EffectiveEngineVersion": "Athena engine version 3", "SelectedEngineVersion": "AUTO"}


def _workgroup_changed(before: Mapping[str, Any], updates: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workgroup's configuration with updates, whose `Remove...` members remove settings."""
    now, given = dict(before), dict(updates)
    results = given.pop("ResultConfigurationUpdates", None)
    if given.pop("RemoveBytesScannedCutoffPerQuery", False):
        now.pop("BytesScannedCutoffPerQuery", None)
    if given.pop("RemoveCustomerContentEncryptionConfiguration", False):
        now.pop("CustomerContentEncryptionConfiguration", None)
    if results is not None:
        kept = dict(now.get("ResultConfiguration") or {})
        for name in _RESULTS:
            if results.get(f"Remove{name}"):
                kept.pop(name, None)
            if results.get(name) is not None:
                kept[name] = results[name]
        now["ResultConfiguration"] = kept
    return {**now, **given}


def athena(module: Any) -> None:
    """Allow updates of workgroups and data catalogs."""
    from moto.core.exceptions import JsonRESTError

    def update_work_group(self: Any) -> str:
        name = self._get_param("WorkGroup")
        group = self.athena_backend.work_groups.get(name)
        if group is None:
            raise JsonRESTError("InvalidRequestException", f"WorkGroup {name} is not found.")
        updates = self._get_param("ConfigurationUpdates") or {}
        group.configuration = _workgroup_changed(group.configuration, updates)
        engine = {**_ENGINE, **(group.configuration.get("EngineVersion") or {})}
        group.configuration["EngineVersion"] = engine
        assign(group, {name: self._get_param(name) for name in ("Description", "State")})
        return json.dumps({})

    def update_data_catalog(self: Any) -> str:
        name = self._get_param("Name")
        catalog = self.athena_backend.data_catalogs.get(name)
        if catalog is None:
            raise JsonRESTError("InvalidRequestException", f"DataCatalog {name} was not found")
        catalog.type = self._get_param("Type")
        assign(catalog, {name: self._get_param(name) for name in ("Description", "Parameters")})
        return json.dumps({})

    module.AthenaResponse.update_work_group = update_work_group
    module.AthenaResponse.update_data_catalog = update_data_catalog


def elasticache(module: Any) -> None:
    """Allow updates of clusters and their subnet groups, which keep what a request omits."""
    from moto.core.responses import ActionResult

    def modify_cache_cluster(self: Any) -> ActionResult:
        given = self._get_params()
        (cluster,) = self.elasticache_backend.describe_cache_clusters(
            cache_cluster_id=given["CacheClusterId"]
        )
        assign(cluster, given, leave=("cache_cluster_id", "engine"))
        return ActionResult({"CacheCluster": cluster})

    def modify_cache_subnet_group(self: Any) -> ActionResult:
        backend, name = self.elasticache_backend, self._get_param("CacheSubnetGroupName")
        (before,) = backend.describe_cache_subnet_groups(cache_subnet_group_name=name)
        description = self._get_param("CacheSubnetGroupDescription")
        given = {
            "CacheSubnetGroupName": name,
            "CacheSubnetGroupDescription": before.cache_subnet_group_description
            if description is None
            else description,
            "SubnetIds": self._get_param("SubnetIds") or before.subnet_ids,
            "Tags": before.tags,
        }
        make, groups = backend.create_cache_subnet_group, backend.cache_subnet_groups
        return ActionResult({"CacheSubnetGroup": _made_anew(make, groups, name, given)[1]})

    module.ElastiCacheResponse.modify_cache_cluster = modify_cache_cluster
    module.ElastiCacheResponse.modify_cache_subnet_group = modify_cache_subnet_group


def sagemaker(module: Any) -> None:
    """Allow endpoints to change their configuration."""
    from moto.core.responses import ActionResult

    def update_endpoint(self: Any) -> ActionResult:
        backend, name = self.sagemaker_backend, self._get_param("EndpointName")
        backend.describe_endpoint(name)
        given = {
            "EndpointName": name,
            "EndpointConfigName": self._get_param("EndpointConfigName"),
            "Tags": backend.endpoints[name].tags,
        }
        before, endpoint = _made_anew(backend.create_endpoint, backend.endpoints, name, given)
        endpoint.creation_time = before.creation_time
        return ActionResult({"EndpointArn": endpoint.arn})

    module.SageMakerResponse.update_endpoint = update_endpoint


def apigatewayv2(module: Any) -> None:
    """Allow imports, and updates of stages of HTTP and WebSocket APIs, which keep what a request omits."""
    from moto.core.utils import utcnow

    from headrace.fallback.services import openapi_http

    def update_stage(self: Any) -> tuple[int, dict[str, Any], str]:
        parts = self.path.split("/")
        stage = self.apigatewayv2_backend.get_stage(parts[-3], module.unquote(parts[-1]))
        api = self.apigatewayv2_backend.get_api(parts[-3])
        # An empty member gets the value of a new stage without it.
        config = {**stage.config, **json.loads(self.body)}
        config = {key: value for key, value in config.items() if value not in ("", {}, None)}
        anew = type(stage)(api, {**config, "stageName": stage.name, "tags": stage.tags})
        anew.created, anew.updated = stage.created, utcnow()
        api.stages[stage.name] = anew
        return 200, {}, json.dumps(anew.to_json())

    module.ApiGatewayV2Response.update_stage = update_stage
    openapi_http.patch_responses(module)


# The defaults of a new domain.
_ES: dict[str, dict[str, Any]] = {
    "CognitoOptions": {"Enabled": False},
    "EBSOptions": {"EBSEnabled": False},
    "EncryptionAtRestOptions": {"Enabled": False},
    "NodeToNodeEncryptionOptions": {"Enabled": False},
    "SnapshotOptions": {"AutomatedSnapshotStartHour": 0},
}


def elasticsearch(module: Any) -> None:
    """Allow updates of Elasticsearch's domains; at that path, moto has only the description."""
    from moto.es import urls

    response: Any = module.OpenSearchServiceResponse
    describe = response.describe_es_domain_config

    def config(request: Any, full_url: str, headers: Any) -> Any:
        if request.method != "POST":
            return describe(request, full_url, headers)
        self = response()
        self.setup_class(request)
        name = request.url.partition("?")[0].split("/")[-2]
        backend = self.opensearch_backend
        # Raises moto's error for a missing domain.
        backend.describe_domain(name)
        domain = backend.domains[name]
        given = json.loads(self.body)
        assign(domain, {**given, **{n: v for n, v in _ES.items() if given.get(n) == {}}})
        return 200, {}, json.dumps({"DomainConfig": domain.to_config_dict()})

    urls.url_paths["{0}/2015-01-01/es/domain/(?P<domainname>[^/]+)/config"] = config


def cognito_identity(module: Any) -> None:
    """Allow an identity pool to change its name, which moto ignores."""
    backend = module.CognitoIdentityBackend
    update = backend.update_identity_pool

    @functools.wraps(update)
    def update_identity_pool(
        self: Any, identity_pool_id: str, identity_pool_name: str, **named: Any
    ) -> Any:
        if identity_pool_name and identity_pool_id in self.identity_pools:
            self.identity_pools[identity_pool_id].identity_pool_name = identity_pool_name
        return update(self, identity_pool_id, identity_pool_name, **named)

    backend.update_identity_pool = update_identity_pool


def iam() -> None:
    """Allow a group to change its path without its name."""
    from moto.iam.models import IAMBackend

    backend: Any = IAMBackend
    update = backend.update_group

    @functools.wraps(update)
    def update_group(
        self: Any, group_name: str, new_group_name: str | None, new_path: str | None
    ) -> Any:
        if new_group_name and new_group_name != group_name:
            return update(self, group_name, new_group_name, new_path)
        group = self.get_group(group_name)
        group.path = new_path or group.path
        return None

    backend.update_group = update_group


def rds(module: Any) -> None:
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
