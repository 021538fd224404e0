"""Prepares a cluster's databases: its administrator, its first database, and Redshift's functions."""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from headrace.core.ports.warehouses import ClusterSpec, WarehouseError
from headrace.services.redshift.clusters import prelude
from headrace.services.redshift.clusters.identities import usable_name
from headrace.services.redshift.clusters.session import connect
from headrace.services.redshift.clusters.sql import quoted_name


def set_up(admin: Mapping[str, Any], spec: ClusterSpec) -> None:
    """Create the administrator, the first database and Redshift's functions on a server of this cloud."""
    with connect(**admin, dbname="template1") as connection:
        connection.execute(cast("Any", prelude.OWNER))
        connection.execute(
            f"""alter role all set search_path = '"$user"', public, {prelude.SCHEMA}"""
        )
        connection.execute("revoke connect on database template1, postgres from public")
        _make_role(connection, spec)
        names = connection.execute("select datname from pg_database where datallowconn").fetchall()
    # In every database: those of an older headrace have its functions.
    for (name,) in names:
        with connect(**admin, dbname=name) as connection:
            connection.execute(cast("Any", prelude.SQL))
            connection.execute(cast("Any", prelude.OF_CLUSTERS))
    # Outside of any transaction, because no session may be connected to the template database.
    connection = connect(**admin, dbname="postgres", autocommit=True)
    try:
        _make_database(connection, spec.database, spec.user)
    finally:
        connection.close()


def _make_role(connection: Any, spec: ClusterSpec) -> None:
    if not usable_name(spec.user):
        raise WarehouseError("AuthenticationFailed", f'FATAL:  user "{spec.user}" is reserved')
    found = connection.execute("select 1 from pg_roles where rolname = %s", [spec.user]).fetchone()
    verb = "alter" if found else "create"
    name = quoted_name(spec.user)
    word = "'" + spec.password.replace("'", "''") + "'" if spec.password else "null"
    connection.execute(f"{verb} role {name} login createdb createrole password {word}")
    connection.execute(f"grant pg_read_all_stats, pg_signal_backend to {name}")


def _make_database(connection: Any, database: str, owner: str = "") -> None:
    found = connection.execute(
        "select 1 from pg_database where datname = %s", [database]
    ).fetchone()
    if not found:
        of = f" owner {quoted_name(owner)}" if owner else ""
        connection.execute(f"create database {quoted_name(database)}{of}")


def set_up_real(admin: Mapping[str, Any], spec: ClusterSpec, database: str) -> None:
    """Create a cluster's first database, if requested, and Redshift's functions on the user's own server."""
    if database == spec.database:
        connection = connect(**admin, autocommit=True)
        try:
            # Of two that look at the same time, or of two clouds on one server, the second finds the database. The lock
            # ends with the connection: a database is not created in a transaction.
            connection.execute("select pg_advisory_lock(4566)")
            _make_database(connection, database)
        finally:
            connection.close()
    with connect(**{**admin, "dbname": database}) as connection:
        # Two clouds may share the server.
        connection.execute("select pg_advisory_xact_lock(4566)")
        connection.execute(cast("Any", prelude.SQL))
