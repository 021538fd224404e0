"""Maps IAM identities to a cluster's database users: by a login without password, or with a temporary password.

A password is derived from the server's secret and the user's name. It is the same at each request and after a restart,
so that a call does not invalidate another client's connection settings. PostgreSQL refuses it after it expires.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from headrace.core.ports.warehouses import Login, WarehouseError
from headrace.services.redshift.clusters import prelude
from headrace.services.redshift.clusters.postgres import SUPERUSER
from headrace.services.redshift.clusters.session import connect
from headrace.services.redshift.clusters.sql import quote_name


def issue_login(
    connection: Any, secret: str, user: str, acts_as: str, until_ms: int, *, makes: bool = False
) -> str:
    """Create `user` if needed, let it log in at least until a time, and return its password.

    Args:
        connection: the superuser's connection, in a transaction that the caller commits.
        secret: the server's secret.
        user: AWS's database user name for an identity.
        acts_as: the role of its sessions; empty for the user itself. If that user does not exist, the login fails.
        until_ms: epoch milliseconds.
        makes: whether to create `acts_as` too.

    Raises WarehouseError for a name that no user of a cluster has.
    """
    for reserved in (user, acts_as):
        if reserved and not usable_name(reserved):
            raise WarehouseError("AuthenticationFailed", f'FATAL: user "{reserved}" does not exist')
    password = hmac.new(secret.encode(), user.encode(), hashlib.sha256).hexdigest()
    name = quote_name(user)
    # Two calls may run concurrently.
    connection.execute("select pg_advisory_xact_lock(4567)")
    if acts_as and not _exists(connection, acts_as):
        if not makes:
            return password
        connection.execute(f"create role {quote_name(acts_as)}")
    until = datetime.fromtimestamp(until_ms / 1000, UTC).isoformat()
    row = connection.execute(
        "select greatest(rolvaliduntil, %s::timestamptz)::text from pg_authid where rolname = %s",
        [until, user],
    ).fetchone()
    if row is None:
        connection.execute(f"create role {name}")
    else:
        until = row[0]
    connection.execute(f"alter role {name} login password '{password}' valid until '{until}'")
    if acts_as:
        connection.execute(f"grant {quote_name(acts_as)} to {name}")
        connection.execute(f"alter role {name} set role = {quote_name(acts_as)}")
    return password


def _exists(connection: Any, user: str) -> bool:
    row = connection.execute("select 1 from pg_roles where rolname = %s", [user]).fetchone()
    return row is not None


def usable_name(user: str) -> bool:
    """Whether a name may be that of a cluster's user: it is no superuser's, and none of PostgreSQL's own roles'."""
    return user not in (SUPERUSER, prelude.SCHEMA) and not user.startswith("pg_")


def log_in(admin: Mapping[str, Any], login: Login, database: str) -> Any:
    """Connect as a user whom AWS has authenticated, through the socket of the superuser's settings `admin`.

    The session is the user's from its first byte: it has no other rights to go back to. Raises WarehouseError.
    """
    unknown = WarehouseError("AuthenticationFailed", f'FATAL: user "{login.user}" does not exist')
    if not usable_name(login.user):
        raise unknown
    settings = {"host": admin["host"], "port": admin["port"], "dbname": database}
    try:
        return connect(**settings, user=login.user)
    except WarehouseError as error:
        if error.kind != "AuthenticationFailed":
            raise
        if not login.is_made:
            raise unknown from error
    with connect(**admin, dbname="postgres") as connection:
        connection.execute("select pg_advisory_xact_lock(4567)")
        verb = "alter" if _exists(connection, login.user) else "create"
        connection.execute(cast("Any", f"{verb} role {quote_name(login.user)} login"))
    return connect(**settings, user=login.user)
