"""Maps IAM identities to users of a cluster's server: in a superuser's session, or with a temporary password.

A password is made of the server's own secret and the user's name: it stays the same when it is asked for again, and
over a restart, so that nobody's connection settings are made useless by somebody else's call. PostgreSQL refuses it
after its time.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any

from headrace.core.warehouse import Login, WarehouseError
from headrace.warehouse.postgres import SUPERUSER
from headrace.warehouse.sql import quoted_name


def lend(
    connection: Any, secret: str, user: str, acts_as: str, until_ms: int, *, makes: bool = False
) -> str:
    """Make `user` if it is not there, let it log in until a time at least, and return its password.

    Args:
        connection: the superuser's, in a transaction that the caller commits.
        secret: the server's own.
        user: as AWS names an identity in a database.
        acts_as: as whom its sessions work; empty for itself. Where nobody of that name is, nobody logs in.
        until_ms: time since 1970.
        makes: whether whom it acts as is made, too.
    """
    password = hmac.new(secret.encode(), user.encode(), hashlib.sha256).hexdigest()
    name = quoted_name(user)
    # Two calls may come at once.
    connection.execute("select pg_advisory_xact_lock(4567)")
    if acts_as and not _is_there(connection, acts_as):
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


def _is_there(connection: Any, user: str) -> bool:
    found = connection.execute("select 1 from pg_roles where rolname = %s", [user]).fetchone()
    return found is not None


def become(connection: Any, login: Login) -> None:
    """Make the superuser's session that of somebody whom AWS has identified. Raises WarehouseError."""
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
