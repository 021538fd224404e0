"""The records of namespaces and workgroups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.core.arn import make_arn


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
