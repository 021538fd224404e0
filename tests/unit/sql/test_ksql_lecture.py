"""The queries of KSQL's first steps (page views, users, counts, enriched views), in both of its spellings.

They run as they are typed; `tests/spark_jobs/test_sql.py` runs them with Spark, nightly.
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.sql.analysis import read_script
from headrace.sql.fold import Fold, Record, run
from headrace.sql.types import SqlError

OLD = r"""
CREATE STREAM pageviews \
  (viewtime BIGINT, \
   userid VARCHAR, \
   pageid VARCHAR) \
  WITH (KAFKA_TOPIC='pageviews', VALUE_FORMAT='DELIMITED', TIMESTAMP='viewtime');
CREATE TABLE users (registertime BIGINT, gender VARCHAR, regionid VARCHAR, userid VARCHAR,
  interests array<VARCHAR>, contactinfo map<VARCHAR, VARCHAR>)
  WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON', KEY = 'userid');
"""
NEW = """
CREATE STREAM pageviews (viewtime BIGINT, userid VARCHAR, pageid VARCHAR)
  WITH (KAFKA_TOPIC='pageviews', VALUE_FORMAT='DELIMITED', TIMESTAMP='viewtime');
CREATE TABLE users (registertime BIGINT, gender VARCHAR, regionid VARCHAR, userid VARCHAR PRIMARY KEY,
  interests ARRAY<VARCHAR>, contactinfo MAP<VARCHAR, VARCHAR>)
  WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON');
"""
QUERIES = """
SET 'auto.offset.reset' = 'earliest';
CREATE TABLE userviewcount AS SELECT userid, COUNT(*) AS views FROM pageviews GROUP BY userid;
CREATE STREAM enrichedpageviews AS
  SELECT viewtime, users.userid AS userid, pageid, regionid, gender, interests[1] AS interest,
    contactinfo['city'] AS city
  FROM pageviews LEFT JOIN users ON pageviews.userid = users.userid;
CREATE STREAM female AS SELECT * FROM enrichedpageviews WHERE gender = 'FEMALE';
CREATE STREAM female_like_89 WITH (KAFKA_TOPIC='female_r8_r9', VALUE_FORMAT='JSON') AS
  SELECT * FROM female WHERE regionid LIKE '%_8' OR regionid LIKE '%_9';
CREATE TABLE regions AS SELECT gender, regionid, COUNT(*) AS numusers FROM enrichedpageviews
  WINDOW TUMBLING (SIZE 30 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY gender, regionid HAVING COUNT(*) > 1 EMIT FINAL;
CREATE TABLE hopping AS SELECT regionid, COUNT(*) AS n FROM enrichedpageviews
  WINDOW HOPPING (SIZE 30 SECONDS, ADVANCE BY 10 SECONDS, GRACE PERIOD 0 SECONDS)
  WHERE UCASE(gender) = 'FEMALE' AND LCASE(regionid) LIKE '%_6' GROUP BY regionid;
"""
USERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("User_1", {"registertime": 1, "gender": "FEMALE", "regionid": "Region_9", "interests": ["News", "Travel"]}),
    ("User_2", {"registertime": 2, "gender": "MALE", "regionid": "Region_6", "contactinfo": {"city": "Rome"}}),
    ("User_3", {"registertime": 3, "gender": "FEMALE", "regionid": "Region_6"}),
)  # fmt: skip
RECORDS = [
    *(("users", Record(value, key)) for key, value in USERS),
    *(
        ("pageviews", Record(f"{second * 1000},User_{user},Page_{page}"))
        for second, user, page in [(1, 1, 10), (2, 2, 11), (3, 1, 12), (4, 3, 13), (5, 9, 14), (31, 3, 15), (95, 1, 16)]
    ),
]  # fmt: skip


def rows(fold: Fold, query: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row.columns[name] for name in names) for row in fold.results[query]]


@pytest.mark.parametrize("declared", [OLD, NEW])
def test_the_queries_run_as_they_are_typed(declared: str) -> None:
    fold = run(read_script(declared + QUERIES), RECORDS)
    assert not fold.unreadable
    counts = {row.columns["userid"]: row.columns["views"] for row in fold.results["userviewcount"]}
    assert counts == {"User_1": 3, "User_2": 1, "User_3": 2, "User_9": 1}
    enriched = rows(fold, "enrichedpageviews", "pageid", "userid", "regionid", "interest", "city")
    assert enriched[:2] == [
        ("Page_10", "User_1", "Region_9", "News", None),
        ("Page_11", "User_2", "Region_6", None, "Rome"),
    ]
    assert enriched[4] == ("Page_14", None, None, None, None)
    pages = [("Page_10",), ("Page_12",), ("Page_13",), ("Page_15",), ("Page_16",)]
    assert rows(fold, "female", "pageid") == pages
    assert rows(fold, "female_like_89", "pageid") == [pages[0], pages[1], pages[4]]
    assert rows(fold, "regions", "gender", "regionid", "numusers", "WINDOWSTART") == [
        ("FEMALE", "Region_9", 2, 0)
    ]
    hopping = {(r.columns["WINDOWSTART"], r.columns["n"]) for r in fold.results["hopping"]}
    assert hopping == {(-20_000, 1), (-10_000, 1), (0, 1), (10_000, 1), (20_000, 1), (30_000, 1)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("KEY = 'usrid'", "key: no column 'usrid'; did you mean 'userid'"),
        ("VALUE_FORMAT='JSON'", "the table users has no PRIMARY KEY column"),
    ],
)
def test_a_key_that_is_not_there_is_refused(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        read_script(OLD.replace("KEY = 'userid'", text).replace("VALUE_FORMAT='JSON', ", ""))
