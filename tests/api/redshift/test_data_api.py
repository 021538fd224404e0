"""The Redshift Data API: statements, results, what a database holds, and refusals.

Sentences of refusals were observed by others in AWS's answers (tests of public connectors).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.redshift_data import execution
from headrace.testing.waiting import until
from tests.api.redshift.conftest import Run
from tests.support.cloud import InProcessCloud

Rows = Callable[[str], list[list[Any]]]


def refusal(call: Callable[..., Any], **given: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        call(**given)
    error = refused.value.response["Error"]
    return error["Code"], error["Message"]


def test_values_come_back_with_their_types(cloud: InProcessCloud, run: Run):
    run(
        "create table kinds (a int distkey, b varchar(5), c decimal(5,2), d timestamp, e super, f bool, g float)"
    )
    inserted = run(
        "insert into kinds values (:n, :text, 1.5, '2026-01-02', json_parse('{\"x\": [1]}'), true, 1.5),"
        " (null, null, null, null, null, null, null)",
        Parameters=[{"name": "n", "value": "7"}, {"name": "text", "value": "it's"}],
    )
    assert (inserted["Status"], inserted["ResultRows"], inserted["HasResultSet"]) == (
        "FINISHED",
        2,
        False,
    )
    described = run("select * from kinds order by a")
    result = cloud.client("redshift-data").get_statement_result(Id=described["Id"])
    assert result["Records"][0] == [
        {"longValue": 7},
        {"stringValue": "it's"},
        {"stringValue": "1.50"},
        {"stringValue": "2026-01-02 00:00:00"},
        {"stringValue": '{"x":[1]}'},
        {"booleanValue": True},
        {"doubleValue": 1.5},
    ]
    assert result["Records"][1] == [{"isNull": True}] * 7
    assert [column["typeName"] for column in result["ColumnMetadata"]] == [
        "int4", "varchar", "numeric", "timestamp", "super", "bool", "float8",
    ]  # fmt: skip
    assert (result["TotalNumRows"], described["ResultRows"]) == (2, 2)


def test_csv_and_pages(cloud: InProcessCloud, run: Run):
    data = cloud.client("redshift-data")
    described = run("select n, n > 1 as big from generate_series(1, 1500) n", ResultFormat="CSV")
    first = data.get_statement_result_v2(Id=described["Id"])
    text = first["Records"][0]["CSVRecords"]
    assert text.startswith("n,big\r\n1,false\r\n2,true\r\n")
    rest = data.get_statement_result_v2(Id=described["Id"], NextToken=first["NextToken"])
    assert len((text + rest["Records"][0]["CSVRecords"]).splitlines()) == 1501
    assert "NextToken" not in rest


def test_a_statement_that_fails_says_why(run: Run, cloud: InProcessCloud):
    described = run("select * from nowhere")
    assert described["Status"] == "FAILED"
    assert described["Error"].startswith('ERROR: relation "nowhere" does not exist')
    assert "headrace does not support UNLOAD" in run("unload ('select 1') to 's3://b/'")["Error"]
    assert (
        "no value for the parameter b"
        in run("select :b", Parameters=[{"name": "a", "value": "1"}])["Error"]
    )
    code, said = refusal(cloud.client("redshift-data").get_statement_result, Id=described["Id"])
    assert code == "ResourceNotFoundException"
    assert said == "Query does not have result. Please check query status with DescribeStatement."


def test_a_batch_is_one_transaction(cloud: InProcessCloud, run: Run, rows: Rows, database: str):
    data = cloud.client("redshift-data")
    run("create table counted (n int)")
    sqls = ["insert into counted values (1)", "insert into nowhere values (1)", "select 1"]
    begun = data.batch_execute_statement(ClusterIdentifier="flights", Database=database, Sqls=sqls)
    described = data.describe_statement(Id=begun["Id"], WaitTimeSeconds=30)
    assert described["Status"] == "FAILED"
    assert [part["Status"] for part in described["SubStatements"]] == [
        "FINISHED",
        "FAILED",
        "ABORTED",
    ]
    assert rows("select count(*) from counted") == [[0]]
    begun = data.batch_execute_statement(
        ClusterIdentifier="flights",
        Database=database,
        Sqls=[sqls[0], "select n from counted"],
        WaitTimeSeconds=30,
    )
    assert begun["Status"] == "FINISHED"
    assert data.get_statement_result(Id=f"{begun['Id']}:2")["Records"] == [[{"longValue": 1}]]
    run("drop table counted")


def test_a_statement_is_cancelled(cloud: InProcessCloud, database: str, run: Run):
    data = cloud.client("redshift-data")
    begun = data.execute_statement(
        ClusterIdentifier="flights", Database=database, Sql="select pg_sleep(60)"
    )
    while data.describe_statement(Id=begun["Id"], WaitTimeSeconds=1)["Status"] != "STARTED":
        pass
    assert data.cancel_statement(Id=begun["Id"])["Status"]
    assert data.describe_statement(Id=begun["Id"], WaitTimeSeconds=30)["Status"] == "ABORTED"
    assert refusal(data.cancel_statement, Id=begun["Id"])[0] == "ValidationException"


def test_more_than_run_at_once_follow_and_more_than_the_quota_are_refused(
    cloud: InProcessCloud, database: str, monkeypatch: pytest.MonkeyPatch
):
    """Documented: 500 active statements of a cluster; the sentence was observed by others in AWS's answer."""
    monkeypatch.setattr(execution, "ACTIVE_STATEMENTS", 3)
    monkeypatch.setattr(execution, "RUNNING_STATEMENTS", 1)
    data = cloud.client("redshift-data")

    def begin(sql: str) -> str:
        return data.execute_statement(ClusterIdentifier="flights", Database=database, Sql=sql)["Id"]

    def status(statement: str, wait_s: int = 0) -> str:
        waiting = {"WaitTimeSeconds": wait_s} if wait_s else {}
        return data.describe_statement(Id=statement, **waiting)["Status"]

    first, second, third = begin("select pg_sleep(60)"), begin("select 2"), begin("select 3")
    until(lambda: status(first) == "STARTED")
    assert (status(second), status(third)) == ("SUBMITTED", "SUBMITTED")
    assert refusal(
        data.execute_statement, ClusterIdentifier="flights", Database=database, Sql="select 4"
    ) == (
        "ActiveStatementsExceededException",
        "Active statements exceeded the allowed quota (3).",
    )
    data.cancel_statement(Id=second)
    assert (status(second, 30), status(first)) == ("ABORTED", "STARTED")
    data.cancel_statement(Id=first)
    assert (status(first, 30), status(third, 30)) == ("ABORTED", "FINISHED")
    assert status(begin("select 5"), 30) == "FINISHED"


def test_more_sessions_than_the_quota_are_refused(
    cloud: InProcessCloud, database: str, monkeypatch: pytest.MonkeyPatch
):
    """Documented: the code; how many, and the sentence, are assumed. What is refused is not active."""
    monkeypatch.setattr(execution, "ACTIVE_SESSIONS", 0)
    monkeypatch.setattr(execution, "ACTIVE_STATEMENTS", 1)
    data = cloud.client("redshift-data")
    given = {"ClusterIdentifier": "flights", "Database": database, "Sql": "select 1"}
    for _ in range(2):
        code, _ = refusal(data.execute_statement, SessionKeepAliveSeconds=60, **given)
        assert code == "ActiveSessionsExceededException"


def test_statements_are_listed_and_found_by_their_token(
    cloud: InProcessCloud, database: str, run: Run
):
    data = cloud.client("redshift-data")
    one = run("select 1", StatementName="mine", ClientToken="t")
    again = data.execute_statement(
        ClusterIdentifier="flights", Database=database, Sql="select 1", ClientToken="t"
    )
    assert again["Id"] == one["Id"]
    (listed,) = data.list_statements(StatementName="mine")["Statements"]
    assert (listed["Id"], listed["QueryString"], listed["IsBatchStatement"]) == (
        one["Id"],
        "select 1",
        False,
    )
    assert data.list_statements(StatementName="mine", Status="FAILED")["Statements"] == []


def test_what_a_database_holds(cloud: InProcessCloud, database: str, run: Run):
    data = cloud.client("redshift-data")
    run("create schema other")
    run("create table other.shown (a bigint not null, b varchar default 'x')")
    where: dict[str, Any] = {"ClusterIdentifier": "flights", "Database": database}
    assert database in data.list_databases(**where)["Databases"]
    assert data.list_schemas(**where, SchemaPattern="o%")["Schemas"] == ["other"]
    assert data.list_tables(**where, SchemaPattern="other")["Tables"] == [
        {"name": "shown", "schema": "other", "type": "TABLE"}
    ]
    a, b = data.describe_table(**where, Schema="other", Table="shown")["ColumnList"]
    assert (a["name"], a["typeName"], a["nullable"], a["precision"]) == ("a", "int8", 0, 19)
    assert (b["name"], b["length"], b["columnDefault"]) == ("b", 256, "'x'::character varying")


def test_redshifts_functions(rows: Rows):
    sql = (
        "select dateadd(month, 1, '2026-01-31'), datediff(year, '2025-12-31', '2026-01-01'), len('abc'),"
        " nvl(null, 'x'), getdate() <= sysdate, json_extract_path_text('{\"a\":{\"b\":5}}', 'a', 'b')"
    )
    assert rows(sql) == [["2026-02-28 00:00:00", 1, 3, "x", True, "5"]]


def test_the_login_is_a_secrets(cloud: InProcessCloud, database: str):
    data, secrets = cloud.client("redshift-data"), cloud.client("secretsmanager")
    for name, word, status in (
        ("right", "Secret123", "FINISHED"),
        ("wrong", "Secret124", "FAILED"),
    ):
        text = json.dumps({"username": "admin", "password": word})
        arn = secrets.create_secret(Name=name, SecretString=text)["ARN"]
        begun = data.execute_statement(
            ClusterIdentifier="flights",
            Database=database,
            Sql="select 1",
            SecretArn=arn,
            WaitTimeSeconds=30,
        )
        assert begun["Status"] == status
    described = data.describe_statement(Id=begun["Id"])
    assert described["Error"] == 'FATAL:  password authentication failed for user "admin"'


def test_refusals(cloud: InProcessCloud, database: str):
    data = cloud.client("redshift-data")
    run: Any = data.execute_statement
    nowhere = ("ValidationException", "Redshift endpoint doesn't exist in this region.")
    assert refusal(run, ClusterIdentifier="none", Database="d", Sql="select 1") == nowhere
    assert refusal(run, WorkgroupName="none", Database="d", Sql="select 1") == nowhere
    code, said = refusal(run, Database="d", Sql="select 1")
    assert (code, said) == (
        "ValidationException",
        "Either ClusterIdentifier, WorkgroupName or SessionId must be provided.",
    )
    unknown = "00000000-0000-0000-0000-000000000000"
    assert refusal(data.describe_statement, Id=unknown) == (
        "ResourceNotFoundException",
        "Query does not exist.",
    )
    assert refusal(run, SessionId=unknown, Sql="select 1")[0] == "ValidationException"
    code, said = refusal(run, SessionId=unknown, Database="d", Sql="select 1")
    assert (code, "cannot be provided with" in said) == ("ValidationException", True)


def test_a_session_keeps_its_temporary_tables(cloud: InProcessCloud, database: str):
    data = cloud.client("redshift-data")
    begun = data.execute_statement(
        ClusterIdentifier="flights",
        Database=database,
        Sql="create temp table mine (n int)",
        SessionKeepAliveSeconds=60,
    )
    session = begun["SessionId"]

    def run(sql: str) -> dict[str, Any]:
        until(lambda: data.list_sessions(SessionId=session)["Sessions"][0]["Status"] == "AVAILABLE")
        made = data.execute_statement(Sql=sql, SessionId=session)
        assert made["SessionId"] == session
        return data.describe_statement(Id=made["Id"], WaitTimeSeconds=30)

    assert run("insert into mine values (7)")["Status"] == "FINISHED"
    assert run("select * from nowhere")["Status"] == "FAILED"
    found = run("select n from mine")
    assert found["SessionId"] == session
    assert data.get_statement_result(Id=found["Id"])["Records"] == [[{"longValue": 7}]]
    (shown,) = data.list_sessions(ClusterIdentifier="flights")["Sessions"]
    assert (shown["Status"], shown["Database"], shown["SessionAliveSeconds"]) == (
        "AVAILABLE",
        database,
        60,
    )
    last = data.execute_statement(Sql="select 1", SessionId=session, SessionKeepAliveSeconds=0)
    data.describe_statement(Id=last["Id"], WaitTimeSeconds=30)
    until(lambda: not data.list_sessions()["Sessions"])
    code, said = refusal(data.execute_statement, Sql="select 1", SessionId=session)
    assert (code, "does not exist or is closed" in said) == ("ValidationException", True)


def test_an_event_says_how_a_statement_ended(cloud: InProcessCloud, database: str):
    data, events, sqs = (cloud.client(name) for name in ("redshift-data", "events", "sqs"))
    url = sqs.create_queue(QueueName="ends")["QueueUrl"]
    pattern = {"source": ["aws.redshift-data"]}
    events.put_rule(Name="ends", EventPattern=json.dumps(pattern))
    arn = "arn:aws:sqs:us-east-1:000000000000:ends"
    events.put_targets(Rule="ends", Targets=[{"Id": "q", "Arn": arn}])
    where = {"ClusterIdentifier": "flights", "Database": database}
    silent = data.execute_statement(Sql="select 1", **where)
    begun = data.execute_statement(
        Sql="select 1 union all select 2", WithEvent=True, StatementName="two", **where
    )
    data.describe_statement(Id=silent["Id"], WaitTimeSeconds=30)
    got: list[dict[str, Any]] = []

    def has_come() -> bool:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        got.extend(json.loads(message["Body"]) for message in answer.get("Messages", []))
        return bool(got)

    until(has_come)
    (event,) = got
    assert event["detail-type"] == "Redshift Data Statement Status Change"
    assert event["resources"] == ["arn:aws:redshift:us-east-1:000000000000:cluster:flights"]
    detail = event["detail"]
    assert (detail["statementId"], detail["statementName"]) == (begun["Id"], "two")
    assert (detail["state"], detail["rows"]) == ("FINISHED", 2)
