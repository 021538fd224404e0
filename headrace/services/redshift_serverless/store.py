"""Stores namespaces and workgroups in the state database before the operation answers."""

from __future__ import annotations

from dataclasses import asdict

from headrace.services.redshift_serverless.state import Namespace, Workgroup
from headrace.store.database import Database

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
