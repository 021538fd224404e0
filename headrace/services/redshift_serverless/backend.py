"""Redshift Serverless' state and rules. A workgroup's tables are in a PostgreSQL, like a cluster's."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import replace

from headrace.aws.calls.operation import Call
from headrace.aws.shapes import redshift_serverless as shapes
from headrace.core.ids import Ids
from headrace.core.ports.warehouses import ClusterSpec, Warehouses, user_of
from headrace.core.system_tags import count_tags, is_refused
from headrace.services.redshift_serverless.errors import (
    ADMIN,
    BASE_CAPACITY,
    DATABASE,
    PORT,
    TAGS,
    conflict,
    invalid,
    not_built,
    not_found,
    too_many_tags,
)
from headrace.services.redshift_serverless.state import Key, Namespace, Store, Workgroup

# Members of requests that namespaces and workgroups only store and show.
_OF_NAMESPACE = ("kmsKeyId", "logExports")
_OF_WORKGROUP = (
    "baseCapacity", "configParameters", "enhancedVpcRouting", "ipAddressType", "maxCapacity", "pricePerformanceTarget",
    "publiclyAccessible", "securityGroupIds", "subnetIds", "trackName", "extraComputeForAutomaticOptimization",
)  # fmt: skip


class RedshiftServerless:
    """All namespaces and workgroups. Thread-safe."""

    def __init__(self, *, ids: Ids, store: Store, warehouses: Warehouses) -> None:
        self._ids = ids
        self._store = store
        self._warehouses = warehouses
        self._lock = threading.RLock()

    def start(self) -> None:
        """Load namespaces and workgroups from the database."""
        self._store.load()

    def stop(self) -> None:
        """Do nothing: no worker runs."""

    # --- namespaces ---------------------------------------------------------------------------

    def create_namespace(self, call: Call, request: shapes.CreateNamespaceRequest) -> Namespace:
        """Create a namespace. Raises AwsError."""
        if request.get("manageAdminPassword"):
            raise not_built("manageAdminPassword")
        key = _key(call, str(request["namespaceName"]))
        with self._lock:
            if key in self._store.namespaces:
                raise conflict(f"The namespace {key[2]} already exists.")
            namespace = Namespace(
                name=key[2],
                account=call.account,
                region=call.region,
                namespace_id=self._ids.uuid(),
                created_ms=call.now_ms,
                admin=str(request.get("adminUsername") or ADMIN),
                admin_password=str(request.get("adminUserPassword") or ""),
                database=str(request.get("dbName") or DATABASE),
                roles=[str(role) for role in request.get("iamRoles") or ()],
                default_role=str(request.get("defaultIamRoleArn") or ""),
                settings={name: value for name, value in request.items() if name in _OF_NAMESPACE},
                tags=tags_of(request),
            )
            self._store.put_namespace(namespace)
        return namespace

    def namespace(self, call: Call, name: str) -> Namespace:
        """Return a namespace. Raises AwsError."""
        namespace = self._store.namespaces.get(_key(call, name))
        if namespace is None:
            raise not_found("namespace", name)
        return namespace

    def namespaces(self, call: Call) -> list[Namespace]:
        """Return the account's namespaces, sorted by name."""
        with self._lock:
            return [
                item for key, item in sorted(self._store.namespaces.items()) if _is_of(call, key)
            ]

    def update_namespace(self, call: Call, request: shapes.UpdateNamespaceRequest) -> Namespace:
        """Change what is given. Raises AwsError."""
        if request.get("manageAdminPassword"):
            raise not_built("manageAdminPassword")
        if any(name.startswith("s3Table") for name in request):
            raise not_built("publishing S3 tables")
        with self._lock:
            present = self.namespace(call, str(request["namespaceName"]))
            settings = {name: value for name, value in request.items() if name in _OF_NAMESPACE}
            namespace = replace(
                present,
                admin=str(request.get("adminUsername") or present.admin),
                admin_password=str(request.get("adminUserPassword") or present.admin_password),
                roles=[str(role) for role in request.get("iamRoles", present.roles)],
                default_role=str(request.get("defaultIamRoleArn", present.default_role)),
                settings={**present.settings, **settings},
            )
            self._store.put_namespace(namespace)
        return namespace

    def delete_namespace(self, call: Call, name: str) -> Namespace:
        """Delete a namespace with its tables. Raises AwsError."""
        with self._lock:
            namespace = self.namespace(call, name)
            if any(workgroup.namespace == name for workgroup in self.workgroups(call)):
                raise conflict(f"The namespace {name} has a workgroup. Delete the workgroup first.")
            self._store.delete_namespace(namespace)
        if namespace.home:
            self._warehouses.forget(
                "workgroup", namespace.home, account=call.account, region=call.region
            )
        return namespace

    # --- workgroups ---------------------------------------------------------------------------

    def create_workgroup(self, call: Call, request: shapes.CreateWorkgroupRequest) -> Workgroup:
        """Create a workgroup for a namespace. Raises AwsError."""
        key = _key(call, str(request["workgroupName"]))
        with self._lock:
            namespace = self.namespace(call, str(request["namespaceName"]))
            if key in self._store.workgroups:
                raise conflict(f"The workgroup {key[2]} already exists.")
            if any(other.namespace == namespace.name for other in self.workgroups(call)):
                raise conflict(f"The namespace {namespace.name} has a workgroup already.")
            if namespace.home not in ("", key[2]):
                raise not_built(
                    f"a workgroup of another name than the namespace's first, {namespace.home},"
                )
            workgroup = Workgroup(
                name=key[2],
                account=call.account,
                region=call.region,
                workgroup_id=self._ids.uuid(),
                created_ms=call.now_ms,
                namespace=namespace.name,
                port=int(request.get("port") or PORT),
                settings={
                    "baseCapacity": BASE_CAPACITY,
                    "enhancedVpcRouting": False,
                    "publiclyAccessible": False,
                    **{name: value for name, value in request.items() if name in _OF_WORKGROUP},
                },
                tags=tags_of(request),
            )
            # Namespace first: without `home`, DeleteNamespace could not find the tables.
            self._store.put_namespace(replace(namespace, home=workgroup.name))
            self._store.put_workgroup(workgroup)
        return workgroup

    def workgroup(self, call: Call, name: str) -> Workgroup:
        """Return a workgroup. Raises AwsError."""
        workgroup = self._store.workgroups.get(_key(call, name))
        if workgroup is None:
            raise not_found("workgroup", name)
        return workgroup

    def workgroups(self, call: Call) -> list[Workgroup]:
        """Return the account's workgroups, sorted by name."""
        with self._lock:
            return [
                item for key, item in sorted(self._store.workgroups.items()) if _is_of(call, key)
            ]

    def update_workgroup(self, call: Call, request: shapes.UpdateWorkgroupRequest) -> Workgroup:
        """Change what is given. Raises AwsError."""
        if "port" in request:
            raise not_built("another port of a workgroup that is there")
        with self._lock:
            present = self.workgroup(call, str(request["workgroupName"]))
            settings = {name: value for name, value in request.items() if name in _OF_WORKGROUP}
            workgroup = replace(present, settings={**present.settings, **settings})
            self._store.put_workgroup(workgroup)
        return workgroup

    def delete_workgroup(self, call: Call, name: str) -> Workgroup:
        """Delete a workgroup; the namespace keeps its tables. Raises AwsError."""
        with self._lock:
            workgroup = self.workgroup(call, name)
            self._store.delete_workgroup(workgroup)
        return workgroup

    # --- logins -------------------------------------------------------------------------------

    def address(self, call: Call, workgroup: Workgroup) -> tuple[str, int]:
        """Return a workgroup's host and port; AWS's host name when no PostgreSQL is installed."""
        named = f"{workgroup.name}.{workgroup.account}.{workgroup.region}.redshift-serverless.amazonaws.com"
        return self._warehouses.endpoint_of(self._spec(call, workgroup)) or (named, workgroup.port)

    def issue_login(self, call: Call, name: str, *, until_ms: int) -> tuple[str, str]:
        """Return a database user for the caller, and its password, valid until `until_ms`. Raises AwsError.

        AWS gives the root user a database user without rights; here it acts as the administrator, as in the Data API.
        """
        spec = self._spec(call, self.workgroup(call, name))
        acting = None if call.permit is None else call.permit.acting
        user = user_of(acting.arn) if acting else "IAM:root"
        acts_as = "" if acting else spec.user
        return user, self._warehouses.issue_login(spec, user, acts_as=acts_as, until_ms=until_ms)

    def _spec(self, call: Call, workgroup: Workgroup) -> ClusterSpec:
        namespace = self.namespace(call, workgroup.namespace)
        return ClusterSpec(
            "workgroup",
            workgroup.account,
            workgroup.region,
            workgroup.name,
            namespace.admin,
            namespace.admin_password,
            namespace.database,
            workgroup.port,
            tuple(namespace.roles),
            namespace.default_role,
        )

    # --- tags ---------------------------------------------------------------------------------

    def tags(self, call: Call, arn: str) -> dict[str, str]:
        """Return the tags of a namespace or a workgroup. Raises AwsError."""
        with self._lock:
            return dict(self._find_tagged(call, arn).tags)

    def tag(self, call: Call, arn: str, added: Mapping[str, str]) -> None:
        """Add tags, or overwrite the values of existing ones. Raises AwsError."""
        with self._lock:
            self._retag(call, arn, {**self._find_tagged(call, arn).tags, **added})

    def untag(self, call: Call, arn: str, gone: Collection[str]) -> None:
        """Remove tags; a missing tag is not an error. Raises AwsError."""
        with self._lock:
            left = self._find_tagged(call, arn).tags.items()
            self._retag(call, arn, {key: value for key, value in left if key not in gone})

    def _find_tagged(self, call: Call, arn: str) -> Namespace | Workgroup:
        for item in (*self.namespaces(call), *self.workgroups(call)):
            if item.arn == arn:
                return item
        raise not_found("resource", arn)

    def _retag(self, call: Call, arn: str, tags: dict[str, str]) -> None:
        check_tags(tags)
        item = replace(self._find_tagged(call, arn), tags=tags)
        if isinstance(item, Namespace):
            self._store.put_namespace(item)
        else:
            self._store.put_workgroup(item)


def tags_of(
    request: shapes.CreateNamespaceRequest
    | shapes.CreateWorkgroupRequest
    | shapes.TagResourceRequest,
) -> dict[str, str]:
    """Return a request's tags. Raises AwsError."""
    tags = {str(tag["key"]): str(tag["value"]) for tag in request.get("tags") or ()}
    check_tags(tags)
    return tags


def check_tags(tags: Mapping[str, str]) -> None:
    """Raise AwsError when the tags are too many or reserved."""
    if count_tags(tags) > TAGS:
        raise too_many_tags()
    if any(map(is_refused, tags)):
        raise invalid("Tag keys that begin with aws: are reserved.")


def _key(call: Call, name: str) -> Key:
    return call.account, call.region, name


def _is_of(call: Call, key: Key) -> bool:
    return key[:2] == (call.account, call.region)
