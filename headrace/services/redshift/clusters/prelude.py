"""Creates what every database of a cluster needs: Redshift's functions and its log of load errors.

They are in the schema `headrace`, the last one in the search path. `headrace.loads` lists the finished COPY statements
of deliveries; each entry is written in the transaction of its COPY.

Functions that write there run as the owner of the schema, who has no other rights and cannot log in, and look names up
only in PostgreSQL's own schema: a user's function of the same name is never called with their rights.
"""

SCHEMA = "headrace"
# Entries this old are deleted: Firehose keeps records for a day and Kinesis for a year, so no delivery is repeated.
KEPT_DAYS = 400

SQL = """
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
