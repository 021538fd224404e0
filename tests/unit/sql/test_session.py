"""What the prompt answers: declarations, and rows of queries by the fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from headrace.sql.analysis import Analysis
from headrace.sql.errors import SqlError
from headrace.sql.plan import KSQL
from headrace.sql.records import Record
from headrace.sql.session import Session

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
        ("INSERT INTO flights (id) VALUES ('x');", "use `headrace put`"),
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
        "LPAD(text, whole, text)  STRING  scalar"
    ]
    assert list(session.answer("DESCRIBE FUNCTION lpat;")) == [
        "no function 'lpat'; did you mean 'LPAD'?"
    ]
    assert list(session.answer("DESCRIBE flihts;")) == [
        "no stream, table or query 'flihts'; did you mean 'flights'?"
    ]
