"""Maps IAM identities to a cluster's database users: in a superuser's session, or with a temporary password.

A password is derived from the server's secret and the user's name. It is the same at each request and after a restart,
so that a call does not invalidate another client's connection settings. PostgreSQL refuses it after it expires.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any

from headrace.core.ports.warehouses import Login, WarehouseError
from headrace.services.redshift.clusters.postgres import SUPERUSER
from headrace.services.redshift.clusters.sql import quoted_name


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
    """
    password = hmac.new(secret.encode(), user.encode(), hashlib.sha256).hexdigest()
    name = quoted_name(user)
    # Two calls may run concurrently.
    connection.execute("select pg_advisory_xact_lock(4567)")
    if acts_as and not _exists(connection, acts_as):
        if not makes:
            return password
        connection.execute(f"create role {quoted_name(acts_as)}")
    until = datetime.fromtimestamp(until_ms / 1000, UTC).isoformat()
    found = connection.execute(
        "select greatest(rolvaliduntil, %s::timestamptz)::text from pg_authid where rolname = %s",
        [until, user],
    ).fetchone()
    if found is None:
        connection.execute(f"create role {name}")
    else:
        until = found[0]
    connection.execute(f"alter role {name} login password '{password}' valid until '{until}'")
    if acts_as:
        connection.execute(f"grant {quoted_name(acts_as)} to {name}")
        connection.execute(f"alter role {name} set role = {quoted_name(acts_as)}")
    return password


def _exists(connection: Any, user: str) -> bool:
    found = connection.execute("select 1 from pg_roles where rolname = %s", [user]).fetchone()
    return found is not None


def become(connection: Any, login: Login) -> None:
    """Switch the superuser's session to a user whom AWS has authenticated. Raises WarehouseError."""
    found = connection.execute(
        "select 1 from pg_roles where rolname = %s and rolname <> %s", [login.user, SUPERUSER]
    ).fetchone()
    if not found and not login.is_made:
        connection.close()
        raise WarehouseError("AuthenticationFailed", f'FATAL: user "{login.user}" does not exist')
    if not found:
        connection.execute(f"create role {quoted_name(login.user)}")
    connection.commit()
    connection.execute(f"set session authorization {quoted_name(login.user)}")
