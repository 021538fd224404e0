"""Prepares a cluster's databases: administrator, users of IAM identities, and what every database needs.

Maps IAM identities to a cluster's database users: by a login without password, or with a temporary password.

A password is derived from the server's secret and the user's name. It is the same at each request and after a restart,
so that a call does not invalidate another client's connection settings. PostgreSQL refuses it after it expires.

Creates what every database of a cluster needs: Redshift's functions and its log of load errors.

They are in the schema `headrace`, the last one in the search path. `headrace.loads` lists the finished COPY statements
of deliveries; each entry is written in the transaction of its COPY.

Functions that write there run as the owner of the schema, who has no other rights and cannot log in, and look names up
only in PostgreSQL's own schema: a user's function of the same name is never called with their rights.
"""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from headrace.core.ports.warehouses import ClusterSpec, Login, WarehouseError
from headrace.services.redshift.copy_command import quote_name
from headrace.services.redshift.postgres import SUPERUSER
from headrace.services.redshift.session import connect

SCHEMA = "headrace"
# Entries this old are deleted: Firehose keeps records for a day and Kinesis for a year, so no delivery is repeated.
KEPT_DAYS = 400

PRELUDE = """
create schema if not exists headrace;
create table if not exists headrace.loads (
  name text primary key, at timestamptz not null default now(), loaded bigint not null
);
create sequence if not exists headrace.queries;
create table if not exists headrace.stl_load_errors (
  userid int, slice int, tbl int, starttime timestamp, session int, query bigint, filename char(256),
  line_number bigint, colname char(127), type char(10), col_length char(10), position int, raw_line char(1024),
  raw_field_value char(1024), err_code int, err_reason char(100)
);
create or replace function headrace.getdate() returns timestamp language sql stable as
  $$ select date_trunc('second', now() at time zone 'UTC') $$;
create or replace function headrace.sysdate() returns timestamp language sql stable as
  $$ select now() at time zone 'UTC' $$;
create or replace function headrace.len(text) returns int language sql immutable as $$ select length($1) $$;
create or replace function headrace.json_extract_path_text(text, variadic text[]) returns text language sql immutable as
  $$ select pg_catalog.json_extract_path_text($1::json, variadic $2) $$;
create or replace function headrace.json_parse(text) returns jsonb language sql immutable as $$ select $1::jsonb $$;
create or replace function headrace.json_serialize(jsonb) returns text language sql immutable as $$ select $1::text $$;
create or replace function headrace.part(text) returns text language sql immutable as $$
  select case when p in ('years','yr','yrs','y') then 'year' when p in ('quarters','qtr','qtrs') then 'quarter'
    when p in ('months','mon','mons') then 'month' when p in ('weeks','w') then 'week'
    when p in ('days','d') then 'day' when p in ('hours','hr','hrs','h') then 'hour'
    when p in ('minutes','min','mins','m') then 'minute' when p in ('seconds','sec','secs','s') then 'second'
    when p in ('ms','msec','millisecond','milliseconds') then 'milliseconds'
    when p in ('us','usec','microsecond','microseconds') then 'microseconds' else p end
  from (select lower($1) as p) x $$;
create or replace function headrace.dateadd(text, bigint, timestamp) returns timestamp language sql immutable as $$
  select $3 + $2 * case when headrace.part($1) = 'quarter' then interval '3 months'
    else ('1 ' || headrace.part($1))::interval end $$;
create or replace function headrace.datediff(text, timestamp, timestamp) returns bigint language sql immutable as $$
  select case headrace.part($1)
    when 'year' then extract(year from $3) - extract(year from $2)
    when 'quarter' then (extract(year from $3) - extract(year from $2)) * 4
      + extract(quarter from $3) - extract(quarter from $2)
    when 'month' then (extract(year from $3) - extract(year from $2)) * 12
      + extract(month from $3) - extract(month from $2)
    when 'week' then (date_trunc('week', $3)::date - date_trunc('week', $2)::date) / 7
    when 'day' then $3::date - $2::date
    when 'hour' then extract(epoch from date_trunc('hour', $3) - date_trunc('hour', $2)) / 3600
    when 'minute' then extract(epoch from date_trunc('minute', $3) - date_trunc('minute', $2)) / 60
    when 'milliseconds' then extract(epoch from $3 - $2) * 1000
    when 'microseconds' then extract(epoch from $3 - $2) * 1000000
    else extract(epoch from date_trunc('second', $3) - date_trunc('second', $2)) end::bigint $$;
create or replace function headrace.begin_load(text) returns bigint language plpgsql security definer
  set search_path = pg_catalog, pg_temp as $$
declare done bigint;
begin
  insert into headrace.loads (name, loaded) values ($1, -1) on conflict do nothing;
  if found then
    return -1;
  end if;
  select loaded into done from headrace.loads where name = $1;
  return done;
end $$;
create or replace function headrace.end_load(text, bigint) returns void language sql security definer
  set search_path = pg_catalog, pg_temp as $$
  update headrace.loads set loaded = $2 where name = $1;
  delete from headrace.loads where at < now() - interval '__KEPT__ days' $$;
create or replace function headrace.note_load_errors(jsonb) returns void language sql security definer
  set search_path = pg_catalog, pg_temp as $$
  insert into headrace.stl_load_errors
  select e.userid, e.slice, e.tbl, headrace.sysdate(), pg_backend_pid(), q.query, e.filename, e.line_number, e.colname,
    e.type, e.col_length, e.position, e.raw_line, e.raw_field_value, e.err_code, e.err_reason
  from (select nextval('headrace.queries') as query) q,
    jsonb_populate_recordset(null::headrace.stl_load_errors, $1) e $$;
grant usage on schema headrace to public;
grant select on headrace.stl_load_errors to public;
""".replace("__KEPT__", str(KEPT_DAYS))

# On the servers of this cloud only: on a user's own one, the schema belongs to the user in the URL.
OWNER = f"""
do $$ begin
  if not exists (select 1 from pg_roles where rolname = '{SCHEMA}') then
    create role {SCHEMA};
  end if;
end $$;
alter role {SCHEMA} nosuperuser nologin nocreatedb nocreaterole noreplication nobypassrls;
"""
_OWNED = (
    *(f"table headrace.{name}" for name in ("loads", "stl_load_errors")),
    "sequence headrace.queries",
    *("function headrace.begin_load(text)", "function headrace.end_load(text, bigint)"),
    "function headrace.note_load_errors(jsonb)",
)
# Large objects are no part of Redshift, and are files' cousins: they are nobody's.
_LARGE_OBJECTS = (
    "lo_close(int)", "lo_creat(int)", "lo_create(oid)", "lo_export(oid, text)", "lo_from_bytea(oid, bytea)",
    "lo_get(oid)", "lo_get(oid, bigint, int)", "lo_import(text)", "lo_import(text, oid)", "lo_lseek(int, int, int)",
    "lo_lseek64(int, bigint, int)", "lo_open(oid, int)", "lo_put(oid, bigint, bytea)", "lo_tell(int)",
    "lo_tell64(int)", "lo_truncate(int, int)", "lo_truncate64(int, bigint)", "lo_unlink(oid)", "loread(int, int)",
    "lowrite(int, bytea)",
)  # fmt: skip
OF_CLUSTERS = "\n".join(
    [
        "grant all on schema public to public;",
        f"grant usage, create on schema headrace to {SCHEMA};",
        *(f"alter {each} owner to {SCHEMA};" for each in _OWNED),
        f"revoke create on schema headrace from {SCHEMA};",
        *(
            f"revoke all on function pg_catalog.{large_object} from public;"
            for large_object in _LARGE_OBJECTS
        ),
    ]
)


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
        connection.execute(cast("Any", OWNER))
        connection.execute(f"""alter role all set search_path = '"$user"', public, {SCHEMA}""")
        connection.execute("revoke connect on database template1, postgres from public")
        _make_role(connection, spec)
        names = connection.execute("select datname from pg_database where datallowconn").fetchall()
    # In every database: those of an older headrace have its functions.
    for (name,) in names:
        with connect(**admin, dbname=name) as connection:
            connection.execute(cast("Any", PRELUDE))
            connection.execute(cast("Any", OF_CLUSTERS))
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
        connection.execute(cast("Any", PRELUDE))


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
    return user not in (SUPERUSER, SCHEMA) and not user.startswith("pg_")


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
