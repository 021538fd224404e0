"""Namespaces and workgroups: plain records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.core.arn import make_arn


@dataclass(slots=True)
class Namespace:
    """A namespace: it holds the databases and their tables.

    Attributes:
        admin_password: empty when nobody gave one: then nobody logs in by it.
        home: the workgroup by whose name its tables are kept; empty before its first.
        settings: members that are shown as they were given.
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
    """A workgroup: the endpoint of a namespace. `settings` are members that are shown as they were given."""

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
