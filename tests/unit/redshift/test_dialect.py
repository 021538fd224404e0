"""Redshift's SQL becomes PostgreSQL's; what headrace does not have is refused by name."""

from __future__ import annotations

import pytest

from headrace.core.ports.warehouses import WarehouseError
from headrace.services.redshift.copy_command import join_tokens, statements_of, tokens_of
from headrace.services.redshift.dialect import translate

# Redshift's forms: docs.aws.amazon.com/redshift/latest/dg/r_CREATE_TABLE_NEW.html (documented).
TABLES = {
    "create table t (id bigint identity(1,1), a varchar(max) encode lzo distkey, b super) diststyle key sortkey(a)": (
        "create table t (id bigint generated always as identity (minvalue 1 start 1 increment 1), a varchar(65535),"
        " b jsonb)"
    ),
    "create table x (a int primary key, b text references y(c)) backup no compound sortkey (a, b)": (
        "create table x (a int not null, b varchar(256))"
    ),
    "create table x (a int, b char(3) default 'a''b' not null encode raw, unique (b), primary key (a))": (
        "create table x (a int not null, b char(3) default 'a''b' not null)"
    ),
    'create table "S"."T" ("Mixed" double precision sortkey)': 'create table "s"."t" ("mixed" double precision)',
    "create table q distkey(a) as select 1 a where 2 >= 1": "create table q as select 1 a where 2 >= 1",
    "create temp table y (like x including defaults)": "create temp table y (like x including defaults)",
    "alter table t add column z varchar encode lzo": "alter table t add column z varchar ( 256 )",
}
SELECTS = {
    "select top 5 a from t": "select a from t limit 5",
    "select nvl(a, 0), sysdate from t": "select coalesce(a, 0), headrace.sysdate() from t",
    "select dateadd(day, 1, a), datediff(hour, a, b)": "select dateadd('day', 1, a), datediff('hour', a, b)",
    "select day, 'nvl(' from t": "select day, 'nvl(' from t",
    "select listagg(a, ',') within group (order by b) from t": "select string_agg((a)::text, ',' order by b) from t",
    "select a::super, b::varchar(max)": "select a::jsonb, b::varchar(65535)",
}


@pytest.mark.parametrize("sql", [*TABLES, *SELECTS])
def test_what_only_redshift_has_is_left_out(sql: str):
    wanted = (TABLES | SELECTS)[sql]
    assert " ".join(translate(sql).split()) == wanted


@pytest.mark.parametrize("sql", ["vacuum full t", "analyze t", "alter table t alter distkey a"])
def test_what_changes_no_answer_is_not_run(sql: str):
    assert translate(sql) == ""


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("unload ('select 1') to 's3://b/k'", "UNLOAD"),
        ("create external schema s from data catalog", "CREATE EXTERNAL"),
        ("create table t (a geometry)", "GEOMETRY"),
        ("alter table t append from u", "ALTER TABLE APPEND"),
        ("create table #t (a int)", "#"),
    ],
)
def test_what_is_not_there_is_refused_by_name(sql: str, name: str):
    with pytest.raises(WarehouseError, match="headrace does not support") as refused:
        translate(sql)
    assert name in str(refused.value)


def test_statements_end_at_semicolons_outside_of_texts_and_comments():
    sql = "select ';' ; -- a; b\n select $$;$$ /* ; */ ; ; select \"a;\""
    assert statements_of(sql) == ["select ';'", "-- a; b\n select $$;$$ /* ; */", 'select "a;"']


@pytest.mark.parametrize(
    "sql", ["select 'open", 'a "open', "/* open", "$x$ open", "(((", "a->>'b' <> 1::int"]
)
def test_tokens_lose_nothing(sql: str):
    assert join_tokens(tokens_of(sql)) == sql


def test_a_statement_that_never_closes_is_refused():
    with pytest.raises(WarehouseError, match="syntax error at end of input"):
        translate("create table t (a int")
