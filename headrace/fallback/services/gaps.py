"""Adds what stacks need where moto's services lack it or are wrong: deletions, refusals, headrace's S3 buckets.

Each function patches the module that it is given, once that is imported: see `_LATER` in `__init__.py`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import base64
import functools
import importlib
import json
from collections.abc import Callable
from typing import Any

from headrace.aws.errors import AwsError
from headrace.fallback.current_cloud import CURRENT
from headrace.fallback.kept import pickles
from headrace.fallback.other_accounts import patch_buses
from headrace.fallback.services import bus_policies, code_updates, partial_creations, updates

_FOR_SERVERS = "CodeDeployDefault.OneAtATime"
_MANAGED_KEYS = {
    "alias/aws/s3": "Default key that protects my S3 objects when no other key is defined"
}


def _has_bucket(account: str, region: str, name: str) -> bool:
    """Whether a bucket exists; S3 is headrace's own, and moto's has no buckets."""
    if CURRENT.control is None:
        return True
    region = "us-east-1" if region == "aws" else region
    try:
        CURRENT.control.call("s3", "HeadBucket", {"Bucket": name}, account=account, region=region)
    except AwsError:
        return False
    return True


def _json(answer: dict[str, Any] | None = None) -> str:
    return json.dumps(answer or {})


def appregistry(module: Any) -> None:
    """Allow updates and deletions of applications, and refuse a second one with the same name."""
    from moto.core.exceptions import JsonRESTError
    from moto.servicecatalogappregistry import urls
    from moto.servicecatalogappregistry.responses import AppRegistryResponse

    response: Any = AppRegistryResponse
    create = module.AppRegistryBackend.create_application

    def found(self: Any) -> Any:
        name = self.path.rsplit("/", 1)[-1]
        for each in self.servicecatalogappregistry_backend.applications.values():
            if name in (each.id, each.name, each.arn):
                return each
        raise JsonRESTError("ResourceNotFoundException", f"Application {name} not found")

    @functools.wraps(create)
    def create_application(self: Any, name: str, *args: Any, **named: Any) -> Any:
        if any(each.name == name for each in self.applications.values()):
            raise JsonRESTError("ConflictException", f"Application {name} already exists")
        return create(self, name, *args, **named)

    def update_application(self: Any) -> str:
        application = found(self)
        application.description = self._get_param("description")
        return json.dumps({"application": application.to_json()})

    def delete_application(self: Any) -> str:
        application = found(self)
        del self.servicecatalogappregistry_backend.applications[application.arn]
        return json.dumps({"application": application.to_json()})

    module.AppRegistryBackend.create_application = create_application
    response.update_application = update_application
    response.delete_application = delete_application
    urls.url_paths["{0}/applications/(?P<application>[^/]+)$"] = response.dispatch


def athena(module: Any) -> None:
    """Allow deletions of named queries and data catalogs."""

    def delete_named_query(self: Any) -> str:
        self.athena_backend.named_queries.pop(self._get_param("NamedQueryId"), None)
        return _json()

    def delete_data_catalog(self: Any) -> str:
        self.athena_backend.data_catalogs.pop(self._get_param("Name"), None)
        return _json()

    module.AthenaResponse.delete_named_query = delete_named_query
    module.AthenaResponse.delete_data_catalog = delete_data_catalog
    updates.athena(module)


def backup(module: Any) -> None:
    """Allow a deleted plan to be created again."""
    delete = module.BackupBackend.delete_backup_plan

    @functools.wraps(delete)
    def delete_backup_plan(self: Any, backup_plan_id: str) -> Any:
        gone = delete(self, backup_plan_id)
        # The deleted plan would prevent an equal new one.
        self.plans.pop(backup_plan_id, None)
        return gone

    module.BackupBackend.delete_backup_plan = delete_backup_plan


def codebuild(module: Any) -> None:
    """Allow projects without a source, which have their own buildspec."""
    check = module._validate_required_params_source

    @functools.wraps(check)
    def has_source(source: dict[str, Any]) -> None:
        if source.get("type") != "NO_SOURCE":
            check(source)

    module._validate_required_params_source = has_source
    code_updates.codebuild(module)


def codedeploy(module: Any) -> None:
    """Allow deletions of applications and deployment groups, and answers of the hooks of a stack's deployments."""
    from moto.core.exceptions import JsonRESTError

    def delete_application(self: Any) -> str:
        name = self._get_param("applicationName")
        self.codedeploy_backend.applications.pop(name, None)
        self.codedeploy_backend.deployment_groups.pop(name, None)
        return _json()

    def delete_deployment_group(self: Any) -> str:
        groups = self.codedeploy_backend.deployment_groups.get(
            self._get_param("applicationName"), {}
        )
        groups.pop(self._get_param("deploymentGroupName"), None)
        return _json({"hooksNotCleanedUp": []})

    info = module._deployment_group_info

    @functools.wraps(info)
    def deployment_group_info(group: Any) -> dict[str, Any]:
        shown = info(group)
        alarms = group.alarm_configuration
        shown["alarmConfiguration"] = alarms if isinstance(alarms, dict) else {}
        if shown["computePlatform"] == "Lambda" and shown["deploymentConfigName"] == _FOR_SERVERS:
            # Documented: the default configuration of a deployment group for functions.
            shown["deploymentConfigName"] = "CodeDeployDefault.LambdaAllAtOnce"
        return shown

    module._deployment_group_info = deployment_group_info

    def put_lifecycle_event_hook_execution_status(self: Any) -> str:
        # The id names the stack and the resource that wait: cloudformation/alias_deployments.py.
        given, status = self._get_param("lifecycleEventHookExecutionId"), self._get_param("status")
        wanted = {"Succeeded": "SUCCESS", "Failed": "FAILURE"}.get(status)
        if wanted is None:
            raise JsonRESTError(
                "InvalidLifecycleEventHookExecutionStatusException",
                f"The lifecycle event hook execution status {status} is invalid.",  # assumed
            )
        control = CURRENT.control
        try:
            if control is None:
                raise ValueError("there are no stacks")
            stack, resource, hook = json.loads(base64.urlsafe_b64decode(given))
            control.call(
                "cloudformation",
                "SignalResource",
                {
                    "StackName": stack,
                    "LogicalResourceId": resource,
                    "UniqueId": hook,
                    "Status": wanted,
                },
                account=self.current_account,
                region=self.region,
            )
        except (ValueError, TypeError, AwsError) as error:
            raise JsonRESTError(
                "InvalidLifecycleEventHookExecutionIdException",
                f"The lifecycle event hook execution ID {given} is invalid.",  # assumed
            ) from error
        return _json({"lifecycleEventHookExecutionId": given})

    module.CodeDeployResponse.put_lifecycle_event_hook_execution_status = (
        put_lifecycle_event_hook_execution_status
    )
    module.CodeDeployResponse.delete_application = delete_application
    module.CodeDeployResponse.delete_deployment_group = delete_deployment_group
    code_updates.codedeploy(module)


def cognito(module: Any) -> None:
    """Allow deletions of resource servers."""

    def delete_resource_server(self: Any) -> str:
        pool = self.backend.describe_user_pool(self._get_param("UserPoolId"))
        pool.resource_servers.pop(self._get_param("Identifier"), None)
        return ""

    module.CognitoIdpResponse.delete_resource_server = delete_resource_server


_NO_REGISTRY = (
    "headrace has no registry of images and runs none, so no image is built or pushed. A Lambda function: deploy it as"
    " a zip (CDK: Function with Code.fromAsset, SAM: PackageType: Zip). An ECS task or a Batch job: name an image"
    " that exists (CDK: ContainerImage.fromRegistry); headrace stores it and does not run it."
)


def ecr(module: Any) -> None:
    """Refuse the login that the CDK and SAM CLIs make before they build an image: it could not be pushed."""
    from moto.core.exceptions import JsonRESTError

    def get_authorization_token(self: Any) -> str:
        error = JsonRESTError("NotImplemented", _NO_REGISTRY)
        error.code = 501
        raise error

    module.ECRResponse.get_authorization_token = get_authorization_token


def elasticache(module: Any) -> None:
    """Allow deletions of clusters and subnet groups; moto's clusters stay in the state deleting for ever."""
    from moto.core.responses import ActionResult, EmptyResult
    from moto.elasticache.models import ElastiCacheBackend

    backend: Any = ElastiCacheBackend
    delete = backend.delete_cache_cluster

    @functools.wraps(delete)
    def delete_cache_cluster(self: Any, cache_cluster_id: str) -> Any:
        cluster = delete(self, cache_cluster_id)
        self.cache_clusters.pop(cache_cluster_id, None)
        return cluster

    backend.delete_cache_cluster = delete_cache_cluster

    def delete_cache_subnet_group(self: Any) -> ActionResult:
        name = self._get_param("CacheSubnetGroupName")
        self.elasticache_backend.cache_subnet_groups.pop(name, None)
        return EmptyResult()

    module.ElastiCacheResponse.delete_cache_subnet_group = delete_cache_subnet_group
    updates.elasticache(module)


def events(module: Any) -> None:
    """Allow updates of event buses, with their policies, and buses of other accounts."""

    def update_event_bus(self: Any) -> str:
        bus = self.events_backend.describe_event_bus(self._get_param("Name"))
        bus.description = self._get_param("Description")
        bus.kms_key_identifier = self._get_param("KmsKeyIdentifier")
        bus.dead_letter_config = self._get_param("DeadLetterConfig")
        return _json({"Arn": bus.arn, "Name": bus.name})

    module.EventsHandler.update_event_bus = update_event_bus
    models = importlib.import_module("moto.events.models")
    _refuse_details(models.EventsBackend)
    bus_policies.patch(models.EventBus, module.EventsHandler)
    patch_buses(models, module.EventsHandler)


def _refuse_details(backend: Any) -> None:
    """Refuse events whose detail is JSON but not an object (recorded: MalformedDetail); moto accepts them."""
    put = backend.put_events

    def is_other(text: Any) -> bool:
        try:
            return not isinstance(json.loads(text), dict)
        except (TypeError, ValueError):
            return False

    @functools.wraps(put)
    def put_objects(self: Any, events: list[dict[str, Any]]) -> Any:
        # moto refuses an event whose detail is not JSON at all, in its place among the others.
        return put(
            self, [{**one, "Detail": "{"} if is_other(one.get("Detail")) else one for one in events]
        )

    backend.put_events = put_objects


def glue(module: Any) -> None:
    """Allow deletions of connections."""

    def delete_connection(self: Any) -> str:
        self.glue_backend.connections.pop(self._get_param("ConnectionName"), None)
        return _json()

    module.GlueResponse.delete_connection = delete_connection
    updates.glue(module)


class _Elsewhere:
    """Stands for one of headrace's S3 buckets: moto's services may check that it exists, and nothing more."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        from moto.core.exceptions import JsonRESTError

        raise JsonRESTError(
            "NotImplementedException",
            f"headrace's {self._name} cannot be written to by this service",
        )


def kms(module: Any) -> None:
    """Mark AWS managed keys as AWS's (observed in DescribeKey's recorded answers), and accept ARNs of keys."""
    generate = module.KmsBackend._generate_default_keys

    @functools.wraps(generate)
    def generate_managed(self: Any, alias_name: str) -> Any:
        key_id = generate(self, alias_name)
        if key_id is not None:
            key = self.keys[key_id]
            key.key_manager = "AWS"
            key.description = _MANAGED_KEYS.get(alias_name, key.description)
        return key_id

    module.KmsBackend._generate_default_keys = generate_managed
    for name in ("enable_key", "disable_key", "cancel_key_deletion", "schedule_key_deletion"):
        setattr(module.KmsBackend, name, _of_any_name(getattr(module.KmsBackend, name)))


def _of_any_name(method: Any) -> Any:
    """Make a method that takes a key's id take its ARN too."""

    @functools.wraps(method)
    def named(self: Any, key_id: str, *args: Any, **more: Any) -> Any:
        return method(self, self.get_key_id(key_id), *args, **more)

    return named


def s3(module: Any) -> None:
    """Make moto's services find headrace's buckets."""
    get_bucket = module.S3Backend.get_bucket

    @functools.wraps(get_bucket)
    def find(self: Any, bucket_name: str) -> Any:
        known = bucket_name in self.buckets
        if not known and _has_bucket(self.account_id, self.region_name, bucket_name):
            return _Elsewhere(bucket_name)
        return get_bucket(self, bucket_name)

    module.S3Backend.get_bucket = find


def rds(module: Any) -> None:
    """Let a second automatic snapshot within a minute replace the first: moto names them by the minute."""
    partial_creations.rds(module)
    updates.rds(module)

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
    pickles.register_filter("rds", lambda _, state: {**state, "resource_map": {}})
    pickles.register_restorer("rds", _with_resource_map)


def _with_resource_map(backend: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return stored attributes with RDS' collections by their classes: classes are no data, and are not stored."""
    known = vars(backend)
    by_class = {
        kind: state.get(name, known[name])
        for kind, collection in backend.resource_map.items()
        for name in known
        if known[name] is collection
    }
    return {**state, "resource_map": by_class}
