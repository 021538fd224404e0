"""Logs Insights: queries over events, by boto3, and their language."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.logs.insights import Event, parse_query, render_value
from headrace.services.logs.insights_expressions import QueryRefused, QueryTooLong, Run
from tests.support.moto_lab import MotoLab

ARN = "arn:aws:logs:us-east-1:000000000000:log-group:"
EVENTS = [
    Event(1_000, 0, '{"level": "ERROR", "ms": 12, "user": {"id": "a"}, "tags": ["x", "y"]}', "s", "g", "1"),
    Event(61_000, 0, '{"level": "INFO", "ms": 8}', "s", "g", "2"),
    Event(62_000, 0, '{"level": "ERROR", "ms": 30}', "t", "g", "3"),
    Event(63_000, 0, "GET /index took 7 ms", "t", "g", "4"),
    Event(64_000, 0, "REPORT RequestId: r-1\tDuration: 5.25 ms\tMax Memory Used: 40 MB\t", "t", "g", "5"),
]  # fmt: skip


def run(text: str) -> list[dict[str, Any]]:
    query = parse_query(text)
    rows, _ = query.run(EVENTS)
    return [{name: row.get(name) for name in query.shown} for row in rows]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "fields level | filter level = 'ERROR' | sort @timestamp asc",
            [{"level": "ERROR"}, {"level": "ERROR"}],
        ),
        (
            "stats count(*) as n by level | filter n > 1 | sort level",
            [{"level": None, "n": 2.0}, {"level": "ERROR", "n": 2.0}],
        ),
        (
            "filter ispresent(ms) | stats sum(ms), avg(ms) as a, max(ms) as m, pct(ms, 50) as p",
            [{"sum(ms)": 50.0, "a": 50 / 3, "m": 30.0, "p": 12.0}],
        ),
        (
            "stats count(ms) as n by bin(1m) as t | sort t",
            [{"t": 0.0, "n": 1.0}, {"t": 60_000.0, "n": 2.0}],
        ),
        (
            "parse @message 'GET * took * ms' as path, took | filter ispresent(path) | display path, took * 2 as twice",
            [{"path": "/index", "twice": 14.0}],
        ),
        (
            "filter @message like /took \\d+ ms/ | fields strlen(@message) as n",
            [{"n": 20.0}],
        ),
        (
            "filter @message like 'took' and not (level in ['INFO', 'ERROR']) | fields @logStream",
            [{"@logStream": "t"}],
        ),
        (
            "filter @type = 'REPORT' | fields @requestId, @duration, @maxMemoryUsed / 1000000 as mb",
            [{"@requestId": "r-1", "@duration": 5.25, "mb": 40.0}],
        ),
        (
            "filter user.id = 'a' | fields tags.1 as tag, concat(level, '-', ms) as c",
            [{"tag": "y", "c": "ERROR-12"}],
        ),
        (
            "fields level | filter ispresent(level) | dedup level | limit 5",
            [{"level": "ERROR"}, {"level": "INFO"}],
        ),
        (
            "# a comment | here\nfilter ms >= 12 | sort ms desc | limit 1 | fields ms",
            [{"ms": 30.0}],
        ),
        ("filter ms > 100 | stats count(*) as n", [{"n": 0.0}]),
        # Long chains, and numbers beyond a double's.
        ("filter " + " or ".join(["ms = 8"] * 900) + " | fields ms", [{"ms": 8.0}]),
        ("filter " + " and ".join(["ms = 8"] * 900) + " | fields ms", [{"ms": 8.0}]),
        ("filter ms = 8 | fields " + " + ".join(["1"] * 2000) + " as n", [{"n": 2000.0}]),
        ("filter ms = 8 | fields substr(level, 2^1023 * 4) as a, 2^1023 * 4 as b", [{"a": "INFO", "b": None}]),
        ("stats sum(2^1023 * 1) as a, stddev(2^1023 * 4) as b", [{"a": None, "b": None}]),
    ],
)  # fmt: skip
def test_queries(text: str, rows: list[dict[str, Any]]):
    assert run(text) == rows


@pytest.mark.parametrize(
    "text",
    [
        "", "fields", "filter", "filter a =", "stats foo(x)", "stats count(*) by", "limit 0", "limit x", "nothing",
        "filter a like /(/", "parse @message /x(?<y>.)/", "parse @message 'a*' as b, c", "fields foo(a)", "fields a b",
        "filter a = 1 | | limit 1", "fields " + "(" * 200, "x" * 20_000, "pattern @message", "filter a ~ 1",
        "fields " + "-" * 5000 + "1",
    ],
)  # fmt: skip
def test_what_is_no_query_is_refused(text: str):
    with pytest.raises(QueryRefused):
        parse_query(text).run(EVENTS)


def test_numbers_beyond_a_double_are_texts():
    events = [Event(0, 0, f'{{"n": 1{"0" * 400}, "m": 1e999}}', "s", "g", "1")]
    (row,), _ = parse_query("fields n, m, n + 1 as sum").run(events)
    assert (row["m"], row["sum"], len(str(row["n"]))) == ("inf", None, 401)


@pytest.mark.parametrize(
    "text", ["filter @message like /x/", "filter 1 = 2 or '1' = 2", "fields 1 + 1 as n"]
)
def test_a_query_ends_in_bounded_time(monkeypatch: pytest.MonkeyPatch, text: str):
    monkeypatch.setattr("headrace.services.logs.insights_expressions.MOST_SECONDS", -1.0)
    query = parse_query(text)
    with pytest.raises(QueryTooLong):
        query.run(EVENTS * 1000)
    # The commands themselves end, too.
    with pytest.raises(QueryTooLong):
        query.commands[0]([{"@message": "x"}] * 1000, Run())


@pytest.mark.parametrize(
    "text",
    [
        "fields concat(@message, @message) as a" + " | fields concat(a, a) as a" * 30,
        "fields replace(@message, '', @message) as a",
        "parse @message 'x*' as a" + " | parse @message 'x*' as a" * 300,
    ],
)
def test_the_texts_that_a_query_makes_are_bounded(text: str):
    with pytest.raises(QueryTooLong):
        parse_query(text).run([Event(0, 0, "x" * 500_000, "s", "g", "1")])


def test_a_time_beyond_dates_is_a_number():
    assert render_value("@timestamp", 2.0**70) == repr(2.0**70)


@pytest.fixture
def logs(tmp_path: Any) -> Iterator[Any]:
    with MotoLab(tmp_path / "moto") as lab:
        client = lab.client("logs")
        client.create_log_group(logGroupName="g")
        client.create_log_stream(logGroupName="g", logStreamName="s")
        yield client, lab.clock.now_ms()


def test_a_query_by_its_calls(logs: Any):
    client, now_ms = logs
    client.put_log_events(
        logGroupName="g", logStreamName="s",
        logEvents=[{"timestamp": now_ms + n, "message": json.dumps({"n": n})} for n in range(3)],
    )  # fmt: skip
    times = {"startTime": now_ms // 1000 - 60, "endTime": now_ms // 1000 + 60}
    query_id = client.start_query(
        logGroupIdentifiers=[f"{ARN}g:*"],
        queryString="fields @timestamp, n | filter n > 0 | sort n | limit 1", **times,
    )["queryId"]  # fmt: skip
    answer = client.get_query_results(queryId=query_id)
    assert answer["status"] == "Complete"
    assert [(one["field"], one["value"]) for one in answer["results"][0]][1] == ("n", "1")
    assert answer["results"][0][0]["value"].endswith(f".{(now_ms + 1) % 1000:03d}")
    assert answer["statistics"]["recordsScanned"] == 3
    for refused, code in (
        ({"logGroupName": "g", "queryString": "explode"}, "MalformedQueryException"),
        ({"logGroupName": "none", "queryString": "fields a"}, "ResourceNotFoundException"),
        ({"queryString": "fields a"}, "InvalidParameterException"),
        *(
            (
                {"logGroupIdentifiers": [name], "queryString": "fields a"},
                "ResourceNotFoundException",
            )
            # IAM decides about `other`; another account's or region's group is not this one's.
            for name in (
                f"{ARN}other:log-group:g",
                "other:log-group:g",
                ARN.replace("us-east-1", "eu-west-1") + "g",
                ARN.replace("000000000000", "111111111111") + "g",
            )
        ),
    ):
        with pytest.raises(ClientError) as error:
            client.start_query(**refused, **times)
        assert error.value.response["Error"]["Code"] == code
    with pytest.raises(ClientError, match="does not exist"):
        client.disassociate_kms_key(resourceIdentifier=f"{ARN}other:log-group:g")
