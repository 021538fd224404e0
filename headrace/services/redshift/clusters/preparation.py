"""Prepares a cluster's databases: its administrator, its first database, and Redshift's functions."""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from headrace.core.ports.warehouses import ClusterSpec, WarehouseError
from headrace.services.redshift.clusters import prelude
from headrace.services.redshift.clusters.identities import usable_name
from headrace.services.redshift.clusters.session import connect
from headrace.services.redshift.clusters.sql import quote_name

# The views of Redshift's catalog that its Python driver reads, over PostgreSQL's catalog.
#
# They are where Redshift has them, in `pg_catalog`, and read with the rights of who asks. The driver reads others only
# in queries that PostgreSQL cannot parse (aliases that are used beside their definition, `4WHEN`).

_TABLE = "to_regclass(quote_ident(table_schema) || '.' || quote_ident(table_name))"
_REMARKS = f"obj_description({_TABLE}, 'pg_class')::varchar as remarks"
# By name, as documented: docs.aws.amazon.com/redshift/latest/dg/svv_views.html, r_PG_PROC_INFO.html.
_VIEWS = {
    "svv_tables": f"""select table_catalog::varchar(128), table_schema::varchar(128), table_name::varchar(128),
        table_type::varchar(128), {_REMARKS} from information_schema.tables""",
    "svv_all_tables": f"""select table_catalog::varchar(128) as database_name,
        table_schema::varchar(128) as schema_name, table_name::varchar(128), null::varchar(128) as table_acl,
        (case table_type when 'BASE TABLE' then 'TABLE' else table_type end)::varchar(128) as table_type,
        {_REMARKS} from information_schema.tables""",
    "svv_all_columns": f"""select table_catalog::varchar(128) as database_name,
        table_schema::varchar(128) as schema_name, table_name::varchar(128), column_name::varchar(128),
        ordinal_position::int, column_default::varchar, is_nullable::varchar(3),
        (case data_type when 'jsonb' then 'super' when 'bytea' then 'varbyte' else data_type end)::varchar(128)
        as data_type, character_maximum_length::int, numeric_precision::int, numeric_scale::int,
        col_description({_TABLE}, ordinal_position)::varchar as remarks from information_schema.columns""",
    "svv_all_schemas": """select current_database()::varchar(128) as database_name,
        nspname::varchar(128) as schema_name, nspowner::int as schema_owner, 'local'::varchar(128) as schema_type,
        null::varchar(128) as schema_acl, null::varchar(128) as source_database,
        null::varchar(128) as schema_option from pg_catalog.pg_namespace""",
    "svv_redshift_databases": """select datname::varchar(128) as database_name, datdba::int as database_owner,
        'local'::varchar(32) as database_type, null::varchar(128) as database_acl,
        null::varchar(128) as database_options, null::varchar(128) as database_isolation_level
        from pg_catalog.pg_database where not datistemplate and datname <> 'postgres'""",
    "pg_proc_info": """select oid as prooid, proname, pronamespace, proowner, prolang, prosecdef, proisstrict,
        proretset, provolatile, pronargs, prorettype, proargtypes, proargnames,
        prosrc, proacl, prokind from pg_catalog.pg_proc""",
}

# For a superuser's transaction on a server of this cloud.
SQL = "\n".join(
    [
        "set local allow_system_table_mods = on;",
        *(
            f"create or replace view pg_catalog.{name} with (security_invoker = true) as {query};\n"
            f"grant select on pg_catalog.{name} to public;"
            for name, query in _VIEWS.items()
        ),
    ]
)


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
            connection.execute(cast("Any", SQL))
    # Outside of any transaction, because no session may be connected to the template database.
    connection = connect(**admin, dbname="postgres", autocommit=True)
    try:
        _make_database(connection, spec.database, spec.user)
    finally:
        connection.close()


def _make_role(connection: Any, spec: ClusterSpec) -> None:
    if not usable_name(spec.user):
        raise WarehouseError("AuthenticationFailed", f'FATAL:  user "{spec.user}" is reserved')
    row = connection.execute("select 1 from pg_roles where rolname = %s", [spec.user]).fetchone()
    verb = "alter" if row else "create"
    name = quote_name(spec.user)
    word = "'" + spec.password.replace("'", "''") + "'" if spec.password else "null"
    connection.execute(f"{verb} role {name} login createdb createrole password {word}")
    connection.execute(f"grant pg_read_all_stats, pg_signal_backend to {name}")


def _make_database(connection: Any, database: str, owner: str = "") -> None:
    row = connection.execute("select 1 from pg_database where datname = %s", [database]).fetchone()
    if not row:
        of = f" owner {quote_name(owner)}" if owner else ""
        connection.execute(f"create database {quote_name(database)}{of}")


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
