"""The protocol through which services use Redshift clusters and workgroups: their tables and endpoints.

All implementations are thread-safe. PostgreSQL holds a cluster's databases and users; statements are in Redshift's SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

EXTRA = "redshift"
# Why a load failed: the name that follows `Redshift.` in Firehose's error codes. A client's own statement fails with
# DataLoadFailed or StatementFailed.
Kind = Literal[
    "TableNotFound",
    "SyntaxError",
    "AuthenticationFailed",
    "AccessDenied",
    "S3BucketAccessDenied",
    "DataLoadFailed",
    "ColumnNotFound",
    "DatabaseNotFound",
    "IncorrectCopyOptions",
    "MissingColumn",
    "ConnectionFailed",
    "ColumnMismatch",
    "IncorrectOrMissingRegion",
    "IncorrectJsonPathsFile",
    "MissingS3File",
    "InsufficientPrivilege",
    "DiskFull",
    "StatementFailed",
]


class WarehouseUnavailable(Exception):
    """No PostgreSQL can be started on this machine; the message is one sentence that says what to install."""


class WarehouseNotFound(LookupError):
    """There is no such cluster or workgroup; the message is one sentence."""


class WarehouseError(Exception):
    """A connection or a statement failed. `kind` says how; the message is Redshift's sentence."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Kind = kind


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The settings with which a cluster or a workgroup was created.

    Attributes:
        kind: `cluster`, or `workgroup` of Redshift Serverless.
        name: its identifier.
        user: the name of the administrator.
        password: the administrator's password; empty when AWS manages it, so that nobody can log in with it.
        database: the name of its first database.
        port: the port that was requested.
        roles: the IAM roles that its COPY statements may name.
        default_role: the role that `IAM_ROLE default` names; empty for none.
    """

    kind: Literal["cluster", "workgroup"]
    account: str
    region: str
    name: str
    user: str = "awsuser"
    password: str = ""
    database: str = "dev"
    port: int = 5439
    roles: tuple[str, ...] = ()
    default_role: str = ""

    @property
    def key(self) -> str:
        """A name that is unique in this cloud and valid as a file name."""
        return f"{self.kind}-{self.account}-{self.region}-{self.name}"


@dataclass(frozen=True, slots=True)
class Login:
    """The user of a connection, with a password, or with None for a user whom AWS has already identified.

    `is_made`: create the user when it does not exist, as AWS does for IAM identities.
    """

    user: str
    password: str | None = None
    is_made: bool = False


def user_of(arn: str) -> str:
    """Return the database user of an IAM user or role, as AWS names it."""
    name = arn.rpartition("/")[2]
    return f"IAMR:{name}" if ":role/" in arn else f"IAM:{name}"


MayRead = Callable[[str, str, str], str]
"""Takes a role, an action and an ARN; returns AWS's sentence that refuses the action, empty when it is allowed."""


def anybody(role: str, action: str, resource: str) -> str:
    """Allow every role every action. A `MayRead`."""
    return ""


@dataclass(frozen=True, slots=True)
class Load:
    """A COPY that is carried out once, however often it is requested.

    Attributes:
        jdbc_url: the JDBC URL of the cluster and the database.
        login: the database user of the COPY.
        sql: the COPY statement, without credentials.
        role: the IAM role that reads S3.
        once: the name of this load; a second load of the same name does nothing.
        may_read: says whether the role may read an object.
    """

    jdbc_url: str
    login: Login
    sql: str
    role: str
    once: str
    account: str
    region: str
    may_read: MayRead = anybody


@dataclass(slots=True)
class Column:
    """A column of a result or of a table, in the words of the Data API."""

    name: str
    type_name: str
    length: int = 0
    precision: int = 0
    scale: int = 0
    nullable: bool = True
    table: str = ""
    schema: str = ""
    default: str | None = None


@dataclass(slots=True)
class Result:
    """The result of a statement.

    Attributes:
        columns: None for a statement that returns no rows.
        rows: Python values: None, bool, int, float, bytes, or str for all other types.
        count: how many rows were returned or changed; -1 when the statement does neither.
    """

    columns: list[Column] | None = None
    rows: list[Sequence[Any]] = field(default_factory=list[Sequence[Any]])
    count: int = -1


class Session(Protocol):
    """A connection to a database. For one thread at a time; any thread may call `cancel`."""

    pid: int

    def run(self, sql: str, parameters: Sequence[tuple[str, str]] = ()) -> Result:
        """Run one statement in the open transaction. Raises WarehouseError."""
        ...

    def commit(self) -> None:
        """Commit the open transaction. Raises WarehouseError."""
        ...

    def rollback(self) -> None:
        """Roll the open transaction back."""
        ...

    def cancel(self) -> None:
        """Cancel the statement that runs. Any thread may call this."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Warehouses(Protocol):
    """Finds clusters and workgroups, and connects to their databases."""

    def check(self) -> None:
        """Raise WarehouseUnavailable when no PostgreSQL can be started."""
        ...

    def endpoint_of(self, spec: ClusterSpec) -> tuple[str, int] | None:
        """Return the host and port of a cluster, None when it cannot have any. Does not wait until it is up."""
        ...

    def spec_of(self, kind: str, name: str, *, account: str, region: str) -> ClusterSpec:
        """Return the settings of a cluster or a workgroup. Raises WarehouseNotFound."""
        ...

    def open(self, spec: ClusterSpec, database: str, login: Login, *, may_read: MayRead) -> Session:
        """Connect. Raises WarehouseError, WarehouseUnavailable."""
        ...

    def issue_login(
        self, spec: ClusterSpec, user: str, *, acts_as: str, until_ms: int, makes: bool = False
    ) -> str:
        """Give a user a password that is valid until `until_ms`, and return it.

        Raises WarehouseError, WarehouseUnavailable.

        Args:
            spec: the cluster.
            user: the database user; it is created when it does not exist.
            acts_as: the database user whose rights its sessions have; empty for its own. When that user does not exist,
                the login fails.
            until_ms: milliseconds since 1970.
            makes: create the user `acts_as` too, when it does not exist.

        """
        ...

    def load(self, load: Load) -> int:
        """Carry a COPY out unless it was before; return its number of rows. Raises as `open`, and WarehouseNotFound."""
        ...

    def forget(self, kind: str, name: str, *, account: str, region: str) -> None:
        """Delete the data of a deleted cluster."""
        ...


class NoWarehouses:
    """A `Warehouses` without clusters, for services that are built without a cloud."""

    def check(self) -> None:
        """See `Warehouses.check`."""
        raise WarehouseUnavailable("This cloud has no Redshift.")

    def endpoint_of(self, spec: ClusterSpec) -> tuple[str, int] | None:
        """See `Warehouses.endpoint_of`."""
        return None

    def spec_of(self, kind: str, name: str, *, account: str, region: str) -> ClusterSpec:
        """See `Warehouses.spec_of`."""
        raise WarehouseNotFound(f"There is no {kind} {name} in {region}.")

    def open(self, spec: ClusterSpec, database: str, login: Login, *, may_read: MayRead) -> Session:
        """See `Warehouses.open`."""
        raise WarehouseUnavailable("This cloud has no Redshift.")

    def issue_login(
        self, spec: ClusterSpec, user: str, *, acts_as: str, until_ms: int, makes: bool = False
    ) -> str:
        """See `Warehouses.issue_login`."""
        raise WarehouseUnavailable("This cloud has no Redshift.")

    def load(self, load: Load) -> int:
        """See `Warehouses.load`."""
        raise WarehouseUnavailable("This cloud has no Redshift.")

    def forget(self, kind: str, name: str, *, account: str, region: str) -> None:
        """See `Warehouses.forget`."""
