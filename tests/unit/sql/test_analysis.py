"""What the compiler refuses, each with its sentence and its place."""

from __future__ import annotations

import pytest

from headrace.sql.analysis import read_script
from headrace.sql.functions import FUNCTIONS, NOT_BUILT, find_function
from headrace.sql.types import SqlError

RELATIONS = """CREATE STREAM flights (id VARCHAR KEY, carrier VARCHAR, delay INT, tags ARRAY<VARCHAR>) WITH (stream = 'flights');
CREATE TABLE planes (carrier VARCHAR PRIMARY KEY, seats INT) WITH (stream = 'planes');
"""


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT dely FROM flights;", "line 3, column 8: no column 'dely' in flights; did you mean 'delay'?"),
        ("SELECT id FROM fligts;", "no stream or table 'fligts'; did you mean 'flights'?"),
        ("SELECT delay + carrier FROM flights;", "+ needs numbers, not STRING"),
        ("SELECT id FROM flights WHERE delay;", "WHERE needs a condition, not INT"),
        ("SELECT UCASE(delay) FROM flights;", "argument 1 of UCASE is text, not INT"),
        ("SELECT TRANSFORM(MAP('a' := 1), (k, v) => k) AS m FROM flights;", "TRANSFORM takes a function of an array's elements, or two"),
        ("SELECT TRANSFORM(tags, t => t, t => t) AS m FROM flights;", "TRANSFORM takes a function of an array's elements, or two"),
        ("SELECT GREATEST(delay, INTERVAL '1' DAY) FROM flights;", "argument 2 of GREATEST is a value, not INTERVAL"),
        ("CREATE TABLE a AS SELECT id, TOPK(delay, delay) AS t FROM flights GROUP BY id;", "argument 2 of TOPK is a constant: a number, 1 to"),
        ("CREATE TABLE a AS SELECT id, TOPK(delay, -1) AS t FROM flights GROUP BY id;", "argument 2 of TOPK is a constant"),
        ("CREATE TABLE a AS SELECT id, LATEST_BY_OFFSET(delay, 'x') AS t FROM flights GROUP BY id;", "LATEST_BY_OFFSET is a constant: a number of values, or"),
        ("SELECT ARRAY_SORT(tags, 1) AS t FROM flights;", "argument 2 of ARRAY_SORT is a constant: 'ASC' or 'DESC'"),
        ("SELECT INT_FROM_BYTES(TO_BYTES(id, 'hex'), 1) AS t FROM flights;", "argument 2 of INT_FROM_BYTES is a constant: 'BIG_ENDIAN'"),
        ("SELECT LPAD(id, 3, TO_BYTES(id, 'hex')) AS t FROM flights;", "LPAD pads text with text, and bytes with bytes"),
        ("SELECT MASK(id, carrier) AS t FROM flights;", "argument 2 of MASK is a constant: a character or NULL"),
        ("SELECT ARRAY_REMOVE(tags, delay) AS t FROM flights;", "ARRAY_REMOVE compares values of one type, not STRING and INT"),
        ("SELECT ARRAY_UNION(ARRAY[1], ARRAY[1.5]) AS t FROM flights;", "ARRAY_UNION compares values of one type"),
        ("SELECT JSON_ARRAY_CONTAINS(id, CAST(id AS DATE)) AS t FROM flights;", "looks for a text, a number or a BOOLEAN, not DATE"),
        ("SELECT UCASE() FROM flights;", "UCASE takes 1 argument, not 0"),
        ("SELECT UPERCASE(id) FROM flights;", "no function UPERCASE"),
        ("SELECT RANDOM() FROM flights;", "RANDOM is refused: it gives another value"),
        ("SELECT delay[1] FROM flights;", "[] reads an ARRAY or a MAP, and this is INT"),
        ("SELECT id->x FROM flights;", "-> reads a STRUCT's field, and this is STRING"),
        ("SELECT ROWOFFSET FROM flights f JOIN planes p ON f.carrier = p.carrier;",
         "ROWOFFSET is of each relation's records: say whose, such as f.ROWOFFSET"),
        ("SELECT ROWPARTITION, COUNT(*) FROM flights GROUP BY carrier EMIT CHANGES;", "ROWPARTITION is neither in GROUP BY"),
        ("SELECT REGEXP_REPLACE(id, carrier, 'x') FROM flights;", "REGEXP_REPLACE's pattern is a text, not a column"),
        ("SELECT REGEXP_EXTRACT('(', id) FROM flights;", "'(' is no pattern that the runner and Spark read alike"),
        ("SELECT REGEXP_EXTRACT('(a)', id, 2) FROM flights;", "'(a)' has 1 groups, and no group 2"),
        ("SELECT REGEXP_REPLACE(id, '(a)', '$2') FROM flights;", "a replacement names the pattern's 1 groups by $1"),
        ("SELECT ROUND(delay, delay) FROM flights;", "ROUND's digits are a number, not a column"),
        ("SELECT id FROM flights WHERE id LIKE 'a!' ESCAPE '!';", "a pattern does not end with '!', its ESCAPE"),
        ("CREATE TABLE a AS SELECT id, SUM_LIST(ARRAY['x']) AS s FROM flights GROUP BY id;", "SUM_LIST adds INT, BIGINT or DOUBLE, not STRING"),
        ("SELECT id FROM flights WHERE id LIKE 'a' ESCAPE '';", "ESCAPE is one character"),
        ("SELECT MAP(delay := 1) FROM flights;", "a MAP's keys are STRING, not INT: CAST"),
        ("SELECT id FROM flights WHERE ROWOFFSET > 7;", "STRING is not compared with INT"),
        ("SELECT m.ROWOFFSET FROM flights MATCH_RECOGNIZE (ORDER BY ROWTIME MEASURES LAST(x.id) AS n PATTERN (x)) AS m;",
         "a match is of several records: MEASURES LAST(x.ROWOFFSET) AS name gives one's"),
        ("CREATE STREAM x AS SELECT ROWOFFSET FROM flights;", "every row has a ROWOFFSET of its own: give the column another name"),
        ("CREATE STREAM x (rowpartition INT) WITH (stream = 'x');", "every row has a ROWPARTITION of its own"),
        ("SELECT id FROM flights HAVING delay > 1;", "HAVING goes with GROUP BY"),
        ("SELECT id FROM flights WHERE COUNT(*) > 1;", "has no aggregate function"),
        ("CREATE STREAM a AS SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier;", "GROUP BY makes a table"),
        ("CREATE TABLE a AS SELECT id FROM flights;", "a table's query has GROUP BY, or reads a table"),
        ("CREATE TABLE a AS SELECT COUNT(*) AS n FROM flights GROUP BY carrier;", "the key carrier is not selected"),
        ("SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier EMIT FINAL;", "EMIT FINAL goes with a WINDOW"),
        ("CREATE STREAM a AS SELECT * FROM planes;", "a query of tables makes a table: CREATE TABLE .. AS"),
    ("CREATE TABLE a AS SELECT seats FROM planes;", "the key carrier is not selected"),
    ("CREATE TABLE a AS SELECT p.carrier, q.seats FROM planes p FULL JOIN planes q ON p.carrier = q.carrier;",
     "the key carrier is not selected: COALESCE(p.carrier, q.carrier) is in every row"),
    ("CREATE TABLE a AS SELECT p.carrier FROM planes p RIGHT JOIN planes q ON p.seats = q.carrier;",
     "is not compared with"),
        ("SELECT f.id FROM flights f JOIN planes p ON f.carrier = p.carrier JOIN flights g WITHIN 1 HOUR ON f.id = g.id;",
         "streams are joined before tables: put the joins of streams first"),
        ("SELECT f.id FROM flights f FULL JOIN flights g WITHIN 1 HOUR ON f.id = g.id JOIN planes p ON f.carrier = p.carrier;",
         "several joins are INNER or LEFT, not FULL"),
        ("SELECT f.id FROM flights f JOIN planes p ON f.delay > p.seats;", "ON compares one expression of each relation"),
        ("CREATE STREAM flights (a INT) WITH (stream = 'x');", "flights is there already"),
        ("CREATE STREAM x (a INT) WITH (strem = 'x');", "no property 'strem'; did you mean 'stream'?"),
        ("CREATE STREAM x (a INT) WITH (stream = 'x', format = 'XML');", "no format XML; there are JSON, CSV, AVRO and RAW"),
        ("CREATE STREAM x (a VARCHAR) WITH (stream = 'x', timestamp = 'a');", "needs a timestamp_format"),
        ("CREATE STREAM \"../x\" AS SELECT id FROM flights;", "'../x' names a folder of progress"),
        ("CREATE STREAM o AS SELECT id FROM flights; INSERT INTO o WITH (query_id = 'O') SELECT id FROM flights;",
         "two queries are called O"),
        ("CREATE STREAM o AS SELECT id FROM flights; INSERT INTO o WITH (a = 'O') SELECT id FROM flights;",
         "INSERT INTO has the property query_id, not a"),
        ("SELECT id, COUNT(*) FROM flights GROUP BY id, STEP(ROWTIME BY INTERVAL '60' SECOND);",
         "a TIMESTAMP is rounded, not BIGINT: ROWTIME is one with --dialect kinesis-analytics"),
        ("SELECT STRUCT(x := 1, X := 2) AS s FROM flights;", "the field 'x' is there twice"),
        ("DROP STREAM nothing;", "no stream or table 'nothing'"),
        ("SET 'auto.offset.reset' = 'latest';", "the property 'auto.offset.reset' has no effect here"),
        ("SET 'late.stream' = 'a b';", "'a b' is no name of a Kinesis stream"),
        ("SET 'errors.stream' = 'flights'; SELECT id FROM flights;", "reads flights, and so its own bad records"),
        ("CREATE STREAM a AS SELECT id FROM flights; SET 'errors.stream' = 'flights';", "a reads flights, and so its own"),
        ("SET 'late.stream' = 'flights'; CREATE TABLE a AS SELECT id, COUNT(*) FROM flights WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id;",
         "a would read what it writes"),
        ("SET 'late.stream' = 'flights'; SELECT id, COUNT(*) FROM flights WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id EMIT FINAL;",
         "query_1 would read what it writes"),
        (("SET 'late.stream' = 'l'; CREATE TABLE a AS SELECT f.id, COUNT(*) FROM flights f JOIN flights g WITHIN 1 HOUR ON"
          " f.id = g.id WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY f.id EMIT FINAL;"), "late rows of a join that is grouped go to no stream"),
        ("SET 'processing.guarantee' = 'exactly_once';", "the property 'processing.guarantee' has no effect here"),
        ("CREATE STREAM a AS SELECT id FROM flights LIMIT 3;", "LIMIT ends a query whose rows are shown"),
    ],
)  # fmt: skip
def test_a_query_is_refused_with_a_sentence(query: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        read_script(RELATIONS + query)
    assert message in str(error.value)


def test_what_a_job_does_anyway_can_be_set() -> None:
    text = "SET 'auto.offset.reset' = 'earliest'; SELECT id FROM flights LIMIT 3; UNSET 'auto.offset.reset';"
    assert read_script(RELATIONS + text).queries[0].limit == 3


def test_state_without_bound_is_a_warning() -> None:
    script = read_script(
        RELATIONS + "CREATE TABLE a AS SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier;"
    )
    assert any("for ever: a WINDOW bounds it" in text for _, text in script.warnings())


def test_or_replace_leaves_one_query() -> None:
    text = "CREATE STREAM o AS SELECT id FROM flights; CREATE OR REPLACE STREAM o AS SELECT carrier AS id FROM flights;"
    (query,) = read_script(RELATIONS + text).queries
    assert query.outputs[0].name == "id"


def test_a_query_without_a_name_of_its_own_is_a_warning() -> None:
    insert = "CREATE STREAM o AS SELECT id FROM flights; INSERT INTO o {} SELECT id FROM flights;"
    unnamed, named = (
        read_script(RELATIONS + insert.format(clause))
        for clause in ("", "WITH (query_id = 'more')")
    )
    assert any("its place in the text" in text for _, text in unnamed.warnings())
    assert named.queries[1].name == "more"
    assert not any("its place in the text" in text for _, text in named.warnings())


def test_a_name_is_a_function_or_has_a_reason_but_not_both() -> None:
    assert not set(FUNCTIONS) & set(NOT_BUILT)
    assert all(find_function(name.lower()) is FUNCTIONS[name] for name in FUNCTIONS)
