"""Operations that moto's services lack and stacks need: deletions, and looking for buckets where they are.

A service's module is patched once it is imported; most are imported only when they are asked for.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from headrace.aws.errors import AwsError
from headrace.fallback.current import CURRENT

_patched: set[str] = set()


def patch() -> None:
    """Patch the modules that were imported since this was last called."""
    for name, change in _CHANGES.items():
        if name in sys.modules and name not in _patched:
            _patched.add(name)
            change(importlib.import_module(name))


def _has_bucket(account: str, region: str, name: str) -> bool:
    """Whether there is a bucket; S3 is headrace's own, and moto's has none."""
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


def _athena(module: Any) -> None:
    def delete_named_query(self: Any) -> str:
        self.athena_backend.named_queries.pop(self._get_param("NamedQueryId"), None)
        return _json()

    def delete_data_catalog(self: Any) -> str:
        self.athena_backend.data_catalogs.pop(self._get_param("Name"), None)
        return _json()

    module.AthenaResponse.delete_named_query = delete_named_query
    module.AthenaResponse.delete_data_catalog = delete_data_catalog


def _backup(module: Any) -> None:
    delete = module.BackupBackend.delete_backup_plan

    @functools.wraps(delete)
    def delete_backup_plan(self: Any, backup_plan_id: str) -> Any:
        gone = delete(self, backup_plan_id)
        # It would stand in the way of the same plan made anew.
        self.plans.pop(backup_plan_id, None)
        return gone

    module.BackupBackend.delete_backup_plan = delete_backup_plan


def _codedeploy(module: Any) -> None:
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

    module.CodeDeployResponse.delete_application = delete_application
    module.CodeDeployResponse.delete_deployment_group = delete_deployment_group


def _cognito(module: Any) -> None:
    def delete_resource_server(self: Any) -> str:
        pool = self.backend.describe_user_pool(self._get_param("UserPoolId"))
        pool.resource_servers.pop(self._get_param("Identifier"), None)
        return ""

    module.CognitoIdpResponse.delete_resource_server = delete_resource_server


def _elasticache(module: Any) -> None:
    from moto.core.responses import ActionResult, EmptyResult

    def delete_cache_subnet_group(self: Any) -> ActionResult:
        name = self._get_param("CacheSubnetGroupName")
        self.elasticache_backend.cache_subnet_groups.pop(name, None)
        return EmptyResult()

    module.ElastiCacheResponse.delete_cache_subnet_group = delete_cache_subnet_group


def _glue(module: Any) -> None:
    def delete_connection(self: Any) -> str:
        self.glue_backend.connections.pop(self._get_param("ConnectionName"), None)
        return _json()

    module.GlueResponse.delete_connection = delete_connection


def _kinesis_analytics(module: Any) -> None:
    def delete_application(self: Any) -> str:
        backend = self.kinesisanalyticsv2_backend
        backend.applications.pop(self._get_param("ApplicationName"), None)
        return _json()

    module.KinesisAnalyticsV2Response.delete_application = delete_application


class _Elsewhere:
    """A bucket of headrace's S3, of which moto's services may know that it is there, and nothing more."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        from moto.core.exceptions import JsonRESTError

        raise JsonRESTError(
            "NotImplementedException", f"headrace's {self._name} is not written to by this service"
        )


def _s3(module: Any) -> None:
    get_bucket = module.S3Backend.get_bucket

    @functools.wraps(get_bucket)
    def find(self: Any, bucket_name: str) -> Any:
        known = bucket_name in self.buckets
        if not known and _has_bucket(self.account_id, self.region_name, bucket_name):
            return _Elsewhere(bucket_name)
        return get_bucket(self, bucket_name)

    module.S3Backend.get_bucket = find


_CHANGES: dict[str, Callable[[Any], None]] = {
    "moto.athena.responses": _athena,
    "moto.backup.models": _backup,
    "moto.codedeploy.responses": _codedeploy,
    "moto.cognitoidp.responses": _cognito,
    "moto.elasticache.responses": _elasticache,
    "moto.glue.responses": _glue,
    "moto.kinesisanalyticsv2.responses": _kinesis_analytics,
    "moto.s3.models": _s3,
}
