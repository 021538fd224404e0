"""What the prompt answers: declarations, and rows of queries by the fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from headrace.sql.analysis import Analysis
from headrace.sql.fold import run
from headrace.sql.parsing import parse
from headrace.sql.plan import KSQL
from headrace.sql.records import Record
from headrace.sql.session import Session
from headrace.sql.types import SqlError

PARTS: list[list[tuple[str, str, Any]]] = [
    [
        ("flights", "a", {"origin": "EWR", "delay": 20}),
        ("flights", "b", {"origin": "JFK", "delay": 3}),
    ],
    [],
    [("flights", "c", {"origin": "EWR", "delay": 40})],
]
DECLARED = """CREATE STREAM flights (id VARCHAR KEY, origin VARCHAR, delay INT) WITH (stream = 'flights');
CREATE STREAM late AS SELECT id, origin, delay FROM flights WHERE delay > 15;"""


@pytest.fixture
def session() -> Session:
    def read(streams: Sequence[str]) -> Iterator[list[tuple[str, Record]]]:
        assert streams == ["flights"]
        for part in PARTS:
            yield [(stream, Record(value, key)) for stream, key, value in part]

    session = Session(Analysis(KSQL), read)
    assert list(session.answer(DECLARED))[-1] == "ok"
    return session


def test_a_query_has_the_rows_that_are_there_and_follows_them_if_asked(session: Session) -> None:
    assert list(session.answer("SELECT id FROM late;")) == ['{"id": "a"}']
    followed = list(session.answer("SELECT id FROM late EMIT CHANGES;"))
    assert followed == ['{"id": "a"}', '{"id": "c"}']
    assert list(session.answer("SELECT id FROM flights LIMIT 1;")) == ['{"id": "a"}']


def test_a_row_shows_letters_as_they_are_and_what_has_no_utf_8_escaped() -> None:
    record = Record({"origin": "café", "delay": 1}, "a\ud83d")
    session = Session(Analysis(KSQL), lambda _: iter([[("flights", record)]]))
    assert list(session.answer(DECLARED))[-1] == "ok"
    rows = list(session.answer("SELECT id, origin FROM flights;"))
    assert rows == ['{"id": "a\\ud83d", "origin": "café"}']


def test_what_a_query_left_out_is_said_once() -> None:
    def read(_: Sequence[str]) -> Iterator[list[tuple[str, Record]]]:
        for at in (0, 600_000, 1):
            yield [("s", Record({"at": at})), ("s", Record("garbage"))]

    session = Session(Analysis(KSQL), read)
    declared = """CREATE STREAM s (at BIGINT) WITH (stream = 's', timestamp = 'at');
    CREATE STREAM other (at ARRAY<INT>) WITH (stream = 's');"""
    assert list(session.answer(declared)) == ["ok", "ok"]
    assert len(list(session.answer("SELECT at FROM s;"))) == 3
    assert list(session.left_out()) == ["records of s that cannot be read, and are left out: 3"]
    assert list(session.left_out()) == []
    query = "SELECT COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND, GRACE PERIOD 0 SECONDS) GROUP BY 1 EMIT FINAL;"
    assert len(list(session.answer(query))) == 1
    assert "rows that are late, and are left out: 1" in list(session.left_out())


def test_what_there_is_is_listed_and_described(session: Session) -> None:
    assert list(session.answer("\\d")) == [
        "STREAM  flights  flights  JSON",
        "STREAM  late  late  JSON",
    ]
    assert next(iter(session.answer("DESCRIBE flights;"))) == "id  STRING  KEY"
    assert list(session.answer("SHOW TABLES;")) == []
    assert list(session.answer("SHOW QUERIES;")) == ["late  reads flights  into late"]
    assert "  reads    flights" in list(session.answer("EXPLAIN late;"))
    assert "TOPK" in list(session.answer("SHOW FUNCTIONS;"))
    assert {"flights", "origin", "COUNT"} <= set(session.words())


def test_a_query_ends_and_its_stream_is_dropped(session: Session) -> None:
    list(session.answer("TERMINATE late;"))
    assert list(session.answer("SHOW QUERIES;")) == []
    assert list(session.answer("DROP STREAM late;")) == ["ok"]
    for text, message in [
        ("TERMINATE lat;", "no query 'lat'"),
        ("SHOW GARDENS;", "SHOW GARDENS; there is STREAMS"),
        ("INSERT INTO flights (id) VALUES ('x');", "the prompt does, and `headrace put`"),
    ]:
        with pytest.raises(SqlError, match=message):
            list(session.answer(text))


def test_a_reference_table_in_s3_is_for_a_job(session: Session) -> None:
    text = """CREATE TABLE names (origin VARCHAR, name VARCHAR) WITH (object = 's3://b/names.csv', format = 'CSV');
SELECT f.id, n.name FROM flights f JOIN names n ON f.origin = n.origin;"""
    with pytest.raises(SqlError, match="read by a job"):
        list(session.answer(text))


def test_types_variables_and_functions_last_from_one_statement_to_the_next(
    session: Session,
) -> None:
    assert list(session.answer("CREATE TYPE minutes AS INT;\nDEFINE least = '15';")) == ["ok"]
    assert list(session.answer("SHOW TYPES;")) == ["minutes  INT"]
    assert list(session.answer("LIST VARIABLES;")) == ["least  15"]
    text = "SELECT CAST(delay AS minutes) AS d FROM flights WHERE delay > ${least};"
    assert list(session.answer(text)) == ['{"d": 20}']
    assert "  keeps    rows where delay > 15" in list(session.answer(f"EXPLAIN {text}"))
    with pytest.raises(SqlError, match="no variable 'leas'; did you mean 'least'"):
        list(session.answer("SELECT ${leas} FROM flights;"))
    # A text with a mistake names nothing.
    with pytest.raises(SqlError):
        list(session.answer("DEFINE most = '1'; CREATE TYPE other AS INT; SELEC;"))
    assert list(session.answer("SHOW TYPES; SHOW VARIABLES;")) == ["minutes  INT", "least  15"]
    assert list(session.answer("UNDEFINE least; DROP TYPE minutes;")) == ["ok"]
    assert list(session.answer("SHOW TYPES; SHOW VARIABLES;")) == []


def test_what_there_is_is_shown_in_full(session: Session) -> None:
    extended = list(session.answer("SHOW STREAMS EXTENDED;"))
    assert extended[:3] == [
        "STREAM  flights  flights  JSON",
        "  id  STRING  KEY",
        "  origin  STRING",
    ]
    assert "  reads    flights" in list(session.answer("SHOW QUERIES EXTENDED;"))
    assert list(session.answer("SHOW TOPICS; SHOW PROPERTIES;")) == [
        "flights", "late", "auto.offset.reset  earliest",
    ]  # fmt: skip
    assert list(session.answer("DESCRIBE FUNCTION lpad;")) == [
        "LPAD(text or bytes, whole, text or bytes)  as its arguments  scalar"
    ]
    assert list(session.answer("DESCRIBE FUNCTION lpat;")) == [
        "no function 'lpat'; did you mean 'LPAD'?"
    ]
    assert list(session.answer("DESCRIBE flihts;")) == [
        "no stream, table or query 'flihts'; did you mean 'flights'?"
    ]


def test_streams_that_nothing_has_declared_are_shown_too() -> None:
    session = Session(Analysis(KSQL), lambda _: iter(()), streams=lambda: ["b", "a"])
    assert list(session.answer("CREATE STREAM x (n INT) WITH (stream = 'b');")) == ["ok"]
    assert list(session.answer("SHOW TOPICS;")) == ["a", "b"]


def test_values_are_put_as_a_record_of_their_stream() -> None:
    put: list[tuple[str, str, bytes]] = []
    session = Session(Analysis(KSQL), lambda _: iter(()), None, lambda *one: put.append(one))
    declared = """CREATE STREAM j (id VARCHAR KEY, n INT, at TIMESTAMP, l ARRAY<INT>) WITH (stream = 'j');
    CREATE STREAM c (id VARCHAR KEY, n DOUBLE) WITH (stream = 'c', format = 'DELIMITED');
    CREATE STREAM a (id VARCHAR KEY, n INT) WITH (stream = 'a', format = 'AVRO');
    CREATE STREAM r (x VARCHAR) WITH (stream = 'r', format = 'RAW');
    CREATE TABLE t (id VARCHAR PRIMARY KEY, d DECIMAL(3, 1)) WITH (stream = 't');"""
    list(session.answer(declared))
    values = """INSERT INTO j VALUES ('x', 1 + 1, '2013-01-01T05:10:00Z', ARRAY[1, NULL]);
    INSERT INTO j (n) VALUES (-3); INSERT INTO c VALUES ('a,"b', 2); INSERT INTO a VALUES ('x', NULL);
    INSERT INTO r VALUES (UCASE('raw'));"""
    assert list(session.answer(values)) == ["ok"] * 5
    for fits in ("INSERT INTO t VALUES ('x', 7.0);", "INSERT INTO c VALUES ('x', 0.1);"):
        assert list(session.answer(fits)) == ["ok"]
        put.pop()
    assert put[:2] == [
        ("j", "x", b'{"id": "x", "n": 2, "at": "2013-01-01T05:10:00.000Z", "l": [1, null]}'),
        ("j", "-", b'{"id": null, "n": -3, "at": null, "l": null}'),
    ]
    assert put[3:] == [("a", "x", b"\x02\x02x\x00"), ("r", "-", b"RAW")]
    # What is put is read again.
    analysis = Analysis(KSQL)
    for statement in parse(declared + "CREATE STREAM o AS SELECT * FROM c;"):
        analysis.take(statement)
    fold = run(analysis.script(), [(put[2][0], Record(put[2][2], put[2][1]))])
    assert [row.columns for row in fold.results["o"]] == [{"id": 'a,"b', "n": 2.0}]
    for text, message in [
        ("INSERT INTO jj VALUES (1);", "no stream 'jj'; did you mean 'j'"),
        ("INSERT INTO j VALUES (1);", "j has 4 columns, and there are 1 values"),
        ("INSERT INTO j (m) VALUES (1);", "no column 'm' in j"),
        ("INSERT INTO j (n) VALUES ('x');", "line 1, column 27: j.n is INT, not STRING"),
        ("INSERT INTO j (n) VALUES (99999999999);", "j.n is INT, which does not hold 99999999999"),
        ("INSERT INTO j (n) VALUES (2.5);", "j.n is INT, which does not hold 2.5"),
        ("INSERT INTO j (at) VALUES ('soon');", "j.at is TIMESTAMP, which does not hold soon"),
        ("INSERT INTO t VALUES ('x', 7.15);", r"t.d is DECIMAL\(3, ?1\), which does not hold 7.15"),
        ("INSERT INTO t (d) VALUES (7.1);", "a row of the table t needs its key, id"),
        ("INSERT INTO t VALUES (NULL, 7.1);", "a row of the table t needs its key, id"),
        ("INSERT INTO j (n) VALUES (n);", "VALUES are constants, and n is a column"),
    ]:
        with pytest.raises(SqlError, match=message):
            list(session.answer(text))
    assert len(put) == 5


def test_a_group_has_its_last_row_however_the_records_are_cut(session: Session) -> None:
    def read(_streams: Sequence[str]) -> Iterator[list[tuple[str, Record]]]:
        for stream, key, value in [*PARTS[0], *PARTS[2]]:
            yield [(stream, Record(value, key))]
        yield []

    session = Session(Analysis(KSQL), read)
    list(session.answer(DECLARED))
    count = "SELECT origin, COUNT(*) AS n FROM flights"
    assert list(session.answer(f"{count} GROUP BY origin;")) == [
        '{"origin": "EWR", "n": 2}',
        '{"origin": "JFK", "n": 1}',
    ]
    followed = list(session.answer(f"{count} GROUP BY origin EMIT CHANGES;"))
    assert followed[0] == '{"origin": "EWR", "n": 1}'
    assert len(followed) == 3
    windowed = list(
        session.answer(
            f"{count} WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY origin HAVING COUNT(*) < 2;"
        )
    )
    assert [row[:26] for row in windowed] == ['{"origin": "JFK", "n": 1, ']
