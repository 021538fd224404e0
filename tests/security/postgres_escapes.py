"""PostgreSQL's known ways out of a database: to files, programs, libraries, other servers and other people's rights.

`{file}` is a file that nobody may make, `{secret}` one that nobody may read. Each is a list of statements for one
session; a statement that fails does not keep the next ones from being tried.
"""

from __future__ import annotations


def block(*statements: str) -> str:
    """Return a statement that runs others, which no translation of SQL sees."""
    lines = "".join("execute '{}'; ".format(each.replace("'", "''")) for each in statements)
    return f"do $$ begin {lines}end $$"


ESCAPES: dict[str, list[str]] = {
    # --- another's rights
    "reset session authorization": [
        block("reset session authorization", "copy (select 1) to program 'touch {file}'")
    ],
    "set session authorization": [
        block("set session authorization rdsdb", "copy (select 1) to program 'touch {file}'")
    ],
    "set session authorization default": [
        block("set session authorization default"),
        block("copy (select 1) to program 'touch {file}'"),
    ],
    "reset role": [block("reset role", "copy (select 1) to '{file}'")],
    "set role none": [block("set role none", "copy (select 1) to '{file}'")],
    "set role": [block("set role rdsdb", "copy (select 1) to '{file}'")],
    "set role of the schema": [
        block("set role headrace"),
        block("create table headrace.x (n int)"),
    ],
    "set_config role": ["select set_config('role', 'rdsdb', false)", "copy (select 1) to '{file}'"],
    "set_config session_authorization": [
        "select set_config('session_authorization', 'rdsdb', false)",
        block("copy (select 1) to program 'touch {file}'"),
    ],
    "grant programs": [
        block("grant pg_execute_server_program to current_user"),
        block("copy (select 1) to program 'touch {file}'"),
    ],
    "grant files": [
        block("grant pg_read_server_files to current_user"),
        block("create table hosts (line text)", "copy hosts from '{secret}'"),
        "select * from hosts",
    ],
    "grant writing": [
        block("grant pg_write_server_files to current_user"),
        block("copy (select 1) to '{file}'"),
    ],
    "be a superuser": [block("alter role current_user superuser")],
    "make a superuser": [block("create role mighty superuser login password 'x'")],
    "grant a superuser": [block("grant rdsdb to current_user"), block("set role rdsdb")],
    "the superuser's password": [block("alter role rdsdb password 'known'")],
    "change the catalog": [block("update pg_authid set rolsuper = true")],
    "bypass row security": [block("alter role current_user bypassrls")],
    "be a replica": [block("alter role current_user replication")],
    "a function of another name's": [
        block(
            "create function public.now() returns timestamptz language plpgsql as $f$ begin"
            " perform pg_read_file(''{secret}''); return pg_catalog.now(); end $f$"
        ),
        "set search_path = public, pg_catalog",
        "select headrace.end_load('x', 1)",
        block(
            "create function public.lower(text) returns text language plpgsql as $f$ begin"
            " alter role current_user superuser; return $1; end $f$"
        ),
        "select headrace.note_load_errors('[]'::jsonb)",
    ],
    "a definer's function": [
        block(
            "create function mine() returns text language sql security definer as"
            " $f$ select pg_read_file(''{secret}'') $f$"
        ),
        block("alter function mine() owner to rdsdb"),
        "select mine()",
    ],
    "a trigger for the superuser": [
        block(
            "create function t() returns event_trigger language plpgsql as"
            " $f$ begin alter role boss superuser; end $f$"
        ),
        block("create event trigger t on ddl_command_end execute function t()"),
        block("create event trigger t on login execute function t()"),
    ],
    # --- files
    "copy to a file": [block("copy (select 1) to '{file}'")],
    "copy from a file": [
        block("create table read_here (line text)", "copy read_here from '{secret}'"),
        "select * from read_here",
    ],
    "pg_read_file": ["select pg_read_file('{secret}')"],
    "pg_read_binary_file": ["select encode(pg_read_binary_file('{secret}'), 'escape')"],
    "pg_stat_file": ["select size from pg_stat_file('{secret}')"],
    "pg_ls_dir": ["select pg_ls_dir('/')"],
    "pg_ls_waldir": ["select pg_ls_waldir()"],
    "pg_file_settings": ["select * from pg_file_settings"],
    "pg_hba_file_rules": ["select * from pg_hba_file_rules"],
    "lo_import": [
        block("create table imported as select lo_import('{secret}') as id"),
        "select encode(lo_get(id), 'escape') from imported",
    ],
    "lo_export": [
        block("create table large as select lo_from_bytea(0, 'x'::bytea) as id"),
        block("create table gone as select lo_export(id, '{file}') from large"),
    ],
    "large objects": ["select lo_create(4711)", "select lo_put(4711, 0, 'x')"],
    "a tablespace": [block("create tablespace away location '/tmp'")],
    # --- programs and libraries
    "copy to a program": [block("copy (select 1) to program 'touch {file}'")],
    "copy from a program": [
        block("create table cmd (line text)", "copy cmd from program 'cat {secret}'"),
        "select * from cmd",
    ],
    "a function of C": [
        block(
            "create function sys(text) returns int language c as '/lib/x86_64-linux-gnu/libc.so.6', 'system'"
        ),
        "select sys('touch {file}')",
    ],
    "a function of internal": [
        block("create function r(text) returns text language internal as 'pg_read_file_all'"),
        "select r('{secret}')",
    ],
    "load": [block("load '/lib/x86_64-linux-gnu/libc.so.6'"), block("load '$libdir/file_fdw'")],
    "load a plug-in": [block("load '$libdir/plugins/../file_fdw'")],
    "dynamic_library_path": [block("set dynamic_library_path = '/tmp'")],
    "session_preload_libraries": [
        block("alter role current_user set session_preload_libraries = 'x'")
    ],
    **{
        f"extension {name}": [block(f'create extension "{name}"')]
        for name in (
            *("file_fdw", "dblink", "postgres_fdw", "adminpack", "plpython3u", "plperlu", "plperl"),
            *(
                "pltclu",
                "pg_stat_statements",
                "pageinspect",
                "hstore",
                "pgcrypto",
                "citext",
                "vector",
            ),
        )
    },
    "an untrusted language": [block("create language plpython3u")],
    "a language of C": [
        block("create language evil handler plpgsql_call_handler"),
        block("create trusted language evil2 handler plpgsql_call_handler"),
    ],
    "a foreign data wrapper": [
        block("create foreign data wrapper w"),
        block("create server s foreign data wrapper w"),
    ],
    # --- the server
    "archive_command": [
        block("alter system set archive_command = 'touch {file}'"),
        "select pg_reload_conf()",
        "select pg_switch_wal()",
    ],
    "alter system": [block("alter system set log_directory = '/tmp'")],
    "log_statement_stats": [block("set log_directory = '/tmp'")],
    "pg_rotate_logfile": ["select pg_rotate_logfile()"],
    "a subscription": [
        block(
            "create subscription s connection 'host=127.0.0.1 dbname=dev' publication p"
            " with (connect = false)"
        )
    ],
    "a publication of all": [block("create publication p for all tables")],
    "a replication slot": [
        "select pg_create_physical_replication_slot('s')",
        "select pg_create_logical_replication_slot('l', 'test_decoding')",
    ],
    "a backup": ["select pg_backup_start('x')"],
    "a cast": [block("create cast (text as int) without function")],
    "an access method": [block("create access method m type table handler heap_tableam_handler")],
    "a type's input": [
        block("create type shell_type"),
        block("create function shell_in(cstring) returns shell_type language internal as 'textin'"),
        block("create type shell_type (input = shell_in, output = shell_in)"),
    ],
    "statements in one": ["select 1; copy (select 1) to program 'touch {file}'"],
    "statements behind a comment": ["select 1 /* /* */; copy (select 1) to '{file}'; -- */ */"],
    "query_to_xml": ["select query_to_xml('select pg_read_file(''{secret}'')', true, true, '')"],
    "an external entity": [
        "select xmlparse(document '<!DOCTYPE x [<!ENTITY e SYSTEM \"file://{secret}\">]><x>&e;</x>')"
    ],
    "the catalog's views": [
        block("set allow_system_table_mods = on"),
        block("create view pg_catalog.svv_mine as select 1"),
        block("create or replace view pg_catalog.svv_tables as select 1"),
        block("alter view pg_catalog.svv_tables owner to boss"),
    ],
    "other databases": [block("create database from_another template rdsdb")],
    "the server's databases": ["select * from template1.public.x"],
}
