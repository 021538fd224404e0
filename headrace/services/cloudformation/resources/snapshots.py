"""Takes snapshots of databases before a stack deletes them, if their policy is Snapshot.

Source: .../aws-attribute-deletionpolicy.html (documented): the types that have snapshots, and which of them have
Snapshot as their default policy. The form of a snapshot's name was observed in users' accounts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.resources.base import Context

SNAPSHOT = "Snapshot"
_DATABASE = "AWS::RDS::DBInstance"
_DATABASES = "AWS::RDS::DBCluster"
# All types that have snapshots on AWS; a template with types that headrace does not have is refused earlier.
WITH_SNAPSHOTS = frozenset(
    {
        "AWS::DocDB::DBCluster",
        "AWS::EC2::Volume",
        "AWS::ElastiCache::CacheCluster",
        "AWS::ElastiCache::ReplicationGroup",
        "AWS::Neptune::DBCluster",
        _DATABASES,
        _DATABASE,
        "AWS::Redshift::Cluster",
    }
)
# Service, operation, and the members that name the resource and the snapshot.
_CALLS = {
    "AWS::ElastiCache::CacheCluster": (
        "elasticache", "CreateSnapshot", "CacheClusterId", "SnapshotName",
    ),
    _DATABASES: (
        "rds", "CreateDBClusterSnapshot", "DBClusterIdentifier", "DBClusterSnapshotIdentifier",
    ),
    _DATABASE: ("rds", "CreateDBSnapshot", "DBInstanceIdentifier", "DBSnapshotIdentifier"),
    "AWS::Redshift::Cluster": (
        "redshift", "CreateClusterSnapshot", "ClusterIdentifier", "SnapshotIdentifier",
    ),
}  # fmt: skip
_LONGEST_NAME = 50


def default_policy(definition: Mapping[str, Any]) -> str:
    """Return the DeletionPolicy of a resource without one in its template."""
    kind, properties = definition["Type"], definition.get("Properties", {})
    in_cluster = "DBClusterIdentifier" in properties
    return SNAPSHOT if kind == _DATABASES or (kind == _DATABASE and not in_cluster) else "Delete"


def take(context: Context, kind: str, physical_id: str) -> None:
    """Take a snapshot of a resource, unless it no longer exists. Raises AwsError."""
    service, operation, member, named = _CALLS[kind]
    suffix = context.ids.alnum_upper(12)
    name = f"{context.stack_name}-snapshot-{context.logical_id}"[: _LONGEST_NAME - len(suffix) - 1]
    params = {member: physical_id, named: f"{name.rstrip('-')}-{suffix}".lower()}
    try:
        context.call(service, operation, params)
    except AwsError as error:
        if "NotFound" not in error.code:
            raise
