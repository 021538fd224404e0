"""Namespaces and workgroups: records, stored in the state database before the operation answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.core.arn import make_arn
from headrace.store.database import Database


@dataclass(slots=True)
class Namespace:
    """A namespace, which holds databases and their tables.

    Attributes:
        admin_password: empty when the request gave none; then nobody can log in with a password.
        home: the name of its first workgroup, under which its tables are stored; empty before there is one.
        settings: members of the request that are only shown.
    """

    name: str
    account: str
    region: str
    namespace_id: str
    created_ms: int
    admin: str
    admin_password: str
    database: str
    roles: list[str] = field(default_factory=list[str])
    default_role: str = ""
    home: str = ""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    tags: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def arn(self) -> str:
        """Its ARN."""
        path = f"namespace/{self.namespace_id}"
        return make_arn("redshift-serverless", self.region, self.account, path)


@dataclass(slots=True)
class Workgroup:
    """A workgroup, the endpoint of a namespace. `settings` are members of the request that are only shown."""

    name: str
    account: str
    region: str
    workgroup_id: str
    created_ms: int
    namespace: str
    port: int
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    tags: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def arn(self) -> str:
        """Its ARN."""
        path = f"workgroup/{self.workgroup_id}"
        return make_arn("redshift-serverless", self.region, self.account, path)


Key = tuple[str, str, str]


class Store:
    """Namespaces and workgroups by account, region and name. The caller holds the backend's lock."""

    def __init__(self, database: Database) -> None:
        self._namespaces = database.documents("redshift_serverless_namespaces")
        self._workgroups = database.documents("redshift_serverless_workgroups")
        self.namespaces: dict[Key, Namespace] = {}
        self.workgroups: dict[Key, Workgroup] = {}

    def load(self) -> None:
        """Load everything from the database."""
        for _, value in self._namespaces.items():  # noqa: PERF102 - it is no dict
            namespace = Namespace(**value)
            self.namespaces[_key(namespace)] = namespace
        for _, value in self._workgroups.items():  # noqa: PERF102
            workgroup = Workgroup(**value)
            self.workgroups[_key(workgroup)] = workgroup

    def put_namespace(self, namespace: Namespace) -> None:
        """Store a namespace."""
        self._namespaces.put("/".join(_key(namespace)), asdict(namespace))
        self.namespaces[_key(namespace)] = namespace

    def put_workgroup(self, workgroup: Workgroup) -> None:
        """Store a workgroup."""
        self._workgroups.put("/".join(_key(workgroup)), asdict(workgroup))
        self.workgroups[_key(workgroup)] = workgroup

    def delete_namespace(self, namespace: Namespace) -> None:
        """Delete a namespace."""
        self._namespaces.delete("/".join(_key(namespace)))
        del self.namespaces[_key(namespace)]

    def delete_workgroup(self, workgroup: Workgroup) -> None:
        """Delete a workgroup."""
        self._workgroups.delete("/".join(_key(workgroup)))
        del self.workgroups[_key(workgroup)]


def _key(item: Namespace | Workgroup) -> Key:
    return item.account, item.region, item.name
