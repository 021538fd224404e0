"""The protocol through which services use Redshift clusters and workgroups: their tables and their addresses.

All implementations are thread-safe. What a cluster is (its databases, its users) is PostgreSQL's; SQL is Redshift's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

EXTRA = "redshift"
# Why something failed, as Firehose names it after `Redshift.`; a statement of a client that fails is a DataLoadFailed
# or a StatementFailed.
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
    """No PostgreSQL can be started here; the text is one sentence that says what to install."""


class WarehouseNotFound(LookupError):
    """There is no such cluster or workgroup; the text is one sentence that says so."""


class WarehouseError(Exception):
    """A connection or a statement failed. `kind` says how; the text is Redshift's sentence."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Kind = kind


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What a cluster or a workgroup was made with.

    Attributes:
        kind: `cluster`, or `workgroup` of Redshift Serverless.
        name: its identifier.
        user: the administrator's.
        password: the administrator's; empty when a service keeps it, so that nobody can log in with it.
        database: its first.
        port: that it was asked to have.
        roles: the IAM roles that its COPY statements may name.
        default_role: the one that `IAM_ROLE default` names; empty for none.
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
        """A name for it that is unique in this cloud, and a file name."""
        return f"{self.kind}-{self.account}-{self.region}-{self.name}"


@dataclass(frozen=True, slots=True)
class Login:
    """As whom to connect: a user with a password; without one (None), as a user whom AWS has already identified.

    `is_made`: such a user is made when it is not there, as AWS does for IAM identities.
    """

    user: str
    password: str | None = None
    is_made: bool = False


def user_of(arn: str) -> str:
    """Return the database user of an IAM user or role, as AWS names it."""
    name = arn.rpartition("/")[2]
    return f"IAMR:{name}" if ":role/" in arn else f"IAM:{name}"


MayRead = Callable[[str, str, str], str]
"""Takes a role, an action and an ARN; gives the sentence with which AWS refuses it, empty when it does not."""


def anybody(role: str, action: str, resource: str) -> str:
    """Let everybody read everything. A `MayRead`."""
    return ""


@dataclass(frozen=True, slots=True)
class Load:
    """A COPY that happens once.

    Attributes:
        jdbc_url: of the cluster and the database.
        login: as whom.
        sql: the COPY statement, without credentials.
        role: as whom S3 is read.
        once: a name of this load: a load of that name that has happened is not repeated.
        manifest: where the manifest of a COPY lies, for messages.
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
    """What a statement gave.

    Attributes:
        columns: None for a statement that gives no rows.
        rows: values as Python has them: None, bool, int, float, bytes, or text for all else.
        count: rows returned or changed; -1 for neither.
    """

    columns: list[Column] | None = None
    rows: list[Sequence[Any]] = field(default_factory=list[Sequence[Any]])
    count: int = -1


class Session(Protocol):
    """A connection to a database. One thread at a time, but for `cancel`."""

    pid: int

    def run(self, sql: str, parameters: Sequence[tuple[str, str]] = ()) -> Result:
        """Run one statement in the transaction that is open. Raises WarehouseError."""
        ...

    def commit(self) -> None:
        """Make what was run last. Raises WarehouseError."""
        ...

    def rollback(self) -> None:
        """Undo what was run since the last commit."""
        ...

    def cancel(self) -> None:
        """Ask the statement that runs to stop. Any thread."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Warehouses(Protocol):
    """Finds clusters and workgroups and what is in them."""

    def check(self) -> None:
        """Raise WarehouseUnavailable when there is no PostgreSQL to be had."""
        ...

    def endpoint_of(self, spec: ClusterSpec) -> tuple[str, int] | None:
        """Return the host and port at which a cluster is reached, None where none can be. Does not wait for it."""
        ...

    def spec_of(self, kind: str, name: str, *, account: str, region: str) -> ClusterSpec:
        """Return a cluster or a workgroup. Raises WarehouseNotFound."""
        ...

    def open(self, spec: ClusterSpec, database: str, login: Login, *, may_read: MayRead) -> Session:
        """Connect. Raises WarehouseError, WarehouseUnavailable."""
        ...

    def lend(
        self, spec: ClusterSpec, user: str, *, acts_as: str, until_ms: int, makes: bool = False
    ) -> str:
        """Let a user log in until a time (since 1970), and return its password.

        Raises WarehouseError, WarehouseUnavailable.

        Args:
            spec: the cluster.
            user: is made when it is not there.
            acts_as: as whom its sessions work; empty for itself. Where nobody of that name is, nobody logs in.
            until_ms: time since 1970.
            makes: whether whom it acts as is made, too.

        """
        ...

    def load(self, load: Load) -> int:
        """Carry a COPY out once and return its rows, also when it has happened. Raises as `open`, WarehouseNotFound."""
        ...

    def forget(self, kind: str, name: str, *, account: str, region: str) -> None:
        """Delete what a cluster that is deleted holds."""
        ...


class NoWarehouses:
    """There are no clusters: for services that are built without a cloud around them. A `Warehouses`."""

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

    def lend(
        self, spec: ClusterSpec, user: str, *, acts_as: str, until_ms: int, makes: bool = False
    ) -> str:
        """See `Warehouses.lend`."""
        raise WarehouseUnavailable("This cloud has no Redshift.")

    def load(self, load: Load) -> int:
        """See `Warehouses.load`."""
        raise WarehouseUnavailable("This cloud has no Redshift.")

    def forget(self, kind: str, name: str, *, account: str, region: str) -> None:
        """See `Warehouses.forget`."""
