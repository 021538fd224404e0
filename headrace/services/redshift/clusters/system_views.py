"""The views of Redshift's catalog that its Python driver reads, over PostgreSQL's catalog.

They are where Redshift has them, in `pg_catalog`, and read with the rights of who asks. The driver reads others only in
queries that PostgreSQL cannot parse (aliases that are used beside their definition, `4WHEN`).
"""

from __future__ import annotations

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
