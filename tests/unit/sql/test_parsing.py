"""Errors stand at their line and column, and no text takes long or breaks the parser."""

from __future__ import annotations

import pytest

from headrace.sql.analysis import read_script
from headrace.sql.parsing import MOST_BYTES, parse
from headrace.sql.pyspark_job import compile_script
from headrace.sql.statements import CreateSource, Query
from headrace.sql.types import SqlError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT a\nFROM b\nWHERE x >;", "line 3, column 10: ';' does not belong here"),
        ("SELECT a FROM", "line 1, column 14: the statement ends too early"),
        ("SELECT FROM b;", "line 1, column 8: SELECT names nothing before FROM"),
        ("SELECT a, FROM b;", "line 1, column 11: 'FROM' does not belong here"),
        ("SELECT a FROM WHERE a = 1;", "line 1, column 15: 'WHERE' does not belong here"),
        (
            "SELECT a FROM b ORDER BY a;",
            "line 1, column 17: ORDER BY: a stream's rows come as they arrive",
        ),
        (
            "SELECT a FROM b UNION SELECT a FROM c;",
            "line 1, column 17: UNION: INSERT INTO one stream",
        ),
        (
            "SELECT a FROM b;\nWITH c AS (SELECT a FROM b) SELECT a FROM c;",
            "line 2, column 1: WITH: name the query by CREATE STREAM",
        ),
        (
            "SELECT a FROM b WHERE a IN (SELECT a FROM c);",
            "line 1, column 28: a query in a condition or a value: join its stream",
        ),
        ("SELECT 'abc FROM b;", "line 1, column 8: the ' that begins here has no end"),
        (
            "CREATE STREAM a (b BYTES HEADER('c')) WITH (stream = 'a');",
            "line 1, column 26: HEADER: a record of Kinesis has no headers",
        ),
        ("PRINT 'a';", "line 1, column 1: PRINT: `headrace tail` prints a stream"),
        ("SELECT ? FROM b;", "line 1, column 8: '?' does not belong here"),
        ("SELECT ${x} FROM b;", "line 1, column 8: no variable 'x'; DEFINE x = '..'; makes one"),
        (
            "DEFINE x = 'a';\nSELECT ${x} FROM b;\nUNDEFINE x;\nSELECT 1, ${x} FROM b;",
            "line 4, column 11: no variable",
        ),
        (
            "SELECT a FROM b WINDOW TUMBLING (SIZE 1 FORTNIGHT) GROUP BY a;",
            "line 1, column 39: 'FORTNIGHT' is no unit of time",
        ),
        (
            "SELECT STREAM a\nFROM TABLE(HOTSPOTS(CURSOR(SELECT STREAM a FROM s)));",
            "line 2, column 12: HOTSPOTS is refused: ",
        ),
        (
            "SELECT x FROM TABLE(GROUP_RANK(CURSOR(SELECT * FROM s), 'a')) AS t;",
            "line 1, column 21: GROUP_RANK is refused: ",
        ),
        (
            "CREATE FUNCTION f (a INT) RETURNS INT LANGUAGE JAVA AS $$ return a; $$;",
            "line 1, column 39: LANGUAGE: a function is Python's: CREATE FUNCTION",
        ),
        (
            "SELECT t.r.a.b FROM s AS t; SELECT HOTSPOTS(a) FROM s;",
            "line 1, column 13: '.' does not belong here",
        ),
    ],
)
def test_an_error_names_its_place(text: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        parse(text)
    assert str(error.value).startswith(message)


def test_variables_are_text_and_keep_places() -> None:
    statements = parse("DEFINE t = 'flights';\nSELECT a FROM ${t};\n")
    assert isinstance(statements[0], Query)
    assert statements[0].select.source.name == "flights"
    assert statements[0].location.line == 2


def test_quoted_names_keep_their_case_and_quotes() -> None:
    (statement,) = parse("CREATE STREAM `a``b` (\"c d\" INT) WITH (stream = 'x');")
    assert isinstance(statement, CreateSource)
    assert (statement.name, statement.columns[0].name) == ("a`b", "c d")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "1+" * 10_000 + "1 FROM a;",
        "SELECT " + "NOT " * 10_000 + "x FROM a;",
        "SELECT a" + "[1]" * 10_000 + " FROM b;",
        "SELECT " + "CASE WHEN TRUE THEN " * 3000 + "1" + " END" * 3000 + " FROM b;",
        "CREATE STREAM a (b " + "ARRAY<" * 5000 + "INT" + ">" * 5000 + ") WITH (stream = 'a');",
        "SELECT " + "x" * MOST_BYTES + " FROM b;",
        "DEFINE a = '" + "x" * 1000 + "';\nSELECT " + "${a}," * 20_000 + "1 FROM b;",
    ],
    ids=["sum", "not", "index", "case", "type", "long", "variables"],
)
def test_a_bomb_is_an_error(text: str) -> None:
    with pytest.raises(SqlError, match="at most"):
        parse(text)


SOURCE = "CREATE STREAM f (id VARCHAR KEY, n INT, s STRUCT<a INT, b INT>) WITH (stream = 'f');\n"
SWAP = ("CAST(CAST(", " AS STRUCT<b INT, a INT>) AS STRUCT<a INT, b INT>)")


def test_a_case_in_a_case_in_a_case_is_read_in_time() -> None:
    text = f"{'CASE WHEN n = 1 THEN 1 ELSE ' * 140}2{' END' * 140}"
    script = read_script(f"{SOURCE}CREATE STREAM q AS SELECT id, {text} AS c FROM f;")
    assert compile_script(script, "A test.").count("CASE WHEN (n = 1)") == 140


@pytest.mark.parametrize(
    ("begin", "value", "end", "message"),
    [
        ("CHR(", "n", ")", "Spark's words for this are too many"),
        ("LN(", "n", ")", "Spark's words for this are too many"),
        (SWAP[0], "s", SWAP[1], "an expression has at most 100,000 parts"),
    ],
)
def test_what_repeats_its_arguments_is_no_bomb_either(
    begin: str, value: str, end: str, message: str
) -> None:
    text = f"{begin * 40}{value}{end * 40}"
    query = f"{SOURCE}CREATE STREAM q AS SELECT id, {text} AS c FROM f;"
    with pytest.raises(SqlError, match=message):
        compile_script(read_script(query), "A test.")


def test_a_keyword_is_a_name_where_the_grammar_takes_none() -> None:
    (statement,) = parse(
        "select a AS key, window, final FROM b left JOIN c WITHIN 1 HOUR ON a = size;"
    )
    assert isinstance(statement, Query)
    assert [item.alias for item in statement.select.items] == ["key", None, None]
    assert statement.select.joins[0].kind == "LEFT"


def test_ten_thousand_columns_take_a_reduction_each_and_no_copies() -> None:
    """The work grows with the text: names, keys and aggregates are looked up, not searched."""
    names = [f"c{index}" for index in range(5_000)]
    columns = ", ".join(f"{name} INT" for name in names)
    sums = ",\n".join(f"SUM({name}) AS sum_{name}" for name in names)
    keys = ", ".join(names[:500])
    text = f"CREATE STREAM f ({columns}) WITH (stream = 'f');\nCREATE TABLE g AS SELECT {keys},\n{sums} FROM f GROUP BY {keys};"
    (query,) = read_script(text).queries
    assert (len(query.aggregates), len(query.keys)) == (5_000, 500)


def test_no_depth_of_parentheses_recurses() -> None:
    (statement,) = parse("SELECT " + "(" * 100_000 + "1" + ")" * 100_000 + " FROM a;")
    assert isinstance(statement, Query)


@pytest.mark.parametrize(
    ("text", "location", "meant"),
    [
        ("CREATE STREM x (a INT);", "1, column 8: 'STREM'", "STREAM"),
        ("SELECT a FRM s;", "1, column 10: 'FRM'", "FROM"),
        ("SELECT a FROM s\n WHRE a > 1;", "2, column 2: 'WHRE'", "WHERE"),
        ("SELECT a FROM s PARTITON BY a;", "1, column 17: 'PARTITON'", "PARTITION"),
        ("SELECT a FROM s JION t ON a = a;", "1, column 17: 'JION'", "JOIN"),
        (
            "SELECT a FROM s WINDOW TUMBLNG (SIZE 1 HOUR) GROUP BY a;",
            "1, column 24: 'TUMBLNG'",
            "TUMBLING",
        ),
        ("SELECT a FROM s EMIT CHANGS;", "1, column 22: 'CHANGS'", "CHANGES"),
    ],
)
def test_a_word_that_is_nearly_one_of_sqls_is_named_with_its_location(
    text: str, location: str, meant: str
) -> None:
    with pytest.raises(SqlError) as error:
        parse(text)
    assert str(error.value) == f"line {location} does not belong here; did you mean {meant}?"
