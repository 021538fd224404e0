"""Athena over Glue's tables, whole: through boto3, CloudFormation's tables, Firehose's formats and Step Functions."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.athena import queries
from tests.support.clients import client_of
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.iam import allow, as_role, make_role, statements
from tests.support.server import wait_until

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
OUTPUT = {"OutputLocation": "s3://results/out"}
ENDLESS = """SELECT count(*) FROM UNNEST(sequence(1, 10000000)) AS a (x),
    UNNEST(sequence(1, 1000000)) AS b (y) WHERE x * y = 7"""
OPENX = "org.openx.data.jsonserde.JsonSerDe"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("athena") / "data") as cloud:
        s3 = cloud.client("s3")
        for bucket in ("results", "lake"):
            s3.create_bucket(Bucket=bucket)
        cloud.client("glue").create_database(DatabaseInput={"Name": "db"})
        yield cloud


class Athena:
    """Runs statements, and waits for them."""

    def __init__(self, cloud: InProcessCloud) -> None:
        self.client = cloud.client("athena")

    def run(self, sql: str, *parameters: str, database: str = "db") -> dict[str, Any]:
        named = {"ExecutionParameters": list(parameters)} if parameters else {}
        query_id = self.client.start_query_execution(
            QueryString=sql,
            QueryExecutionContext={"Database": database},
            ResultConfiguration=OUTPUT,
            **named,
        )["QueryExecutionId"]

        def ended() -> dict[str, Any] | None:
            shown = self.client.get_query_execution(QueryExecutionId=query_id)["QueryExecution"]
            return None if shown["Status"]["State"] in ("QUEUED", "RUNNING") else shown

        return wait_until(ended)

    def rows(self, sql: str, *parameters: str, database: str = "db") -> list[list[str | None]]:
        """Return a query's rows, without the header."""
        shown = self.run(sql, *parameters, database=database)
        assert shown["Status"]["State"] == "SUCCEEDED", shown["Status"]
        pages = self.client.get_paginator("get_query_results").paginate(
            QueryExecutionId=shown["QueryExecutionId"], PaginationConfig={"PageSize": 2}
        )
        rows = [
            [value.get("VarCharValue") for value in row["Data"]]
            for page in pages
            for row in page["ResultSet"]["Rows"]
        ]
        return rows[1:] if shown["StatementType"] == "DML" else rows

    def reason(self, sql: str) -> str:
        """Return why a query failed."""
        status = self.run(sql)["Status"]
        assert status["State"] == "FAILED"
        assert status["AthenaError"]["ErrorMessage"] == status["StateChangeReason"]
        return str(status["StateChangeReason"])


@pytest.fixture(scope="module")
def athena(cloud: InProcessCloud) -> Athena:
    return Athena(cloud)


def put(cloud: InProcessCloud, key: str, body: bytes) -> None:
    cloud.client("s3").put_object(Bucket="lake", Key=key, Body=body)


def test_json_of_firehose_is_a_partitioned_table(cloud: InProcessCloud, athena: Athena):
    put(cloud, "json/y=2013/m=01/a.gz", gzip.compress(
        b'{"Carrier":"UA","delay":11,"tags":["a","b"],"info":{"Tail":"N1"}}\n{"carrier":"AA","delay":-3}{"carrier":"XX"}\n\n'
    ))  # fmt: skip
    put(cloud, "json/y=2014/m=12/b", b'{"carrier":"DL","delay":null,"more":1}\n')
    put(cloud, "json/y=2014/m=12/_hidden", b"not json")
    created = athena.run(
        "CREATE EXTERNAL TABLE flights (carrier string, delay int, tags array<string>, info struct<tail:string>) "
        f"PARTITIONED BY (y int, m string) ROW FORMAT SERDE '{OPENX}' LOCATION 's3://lake/json/'"
    )
    assert (created["StatementType"], created["SubstatementType"]) == ("DDL", "CREATE_TABLE")
    assert athena.rows("SELECT count(*) FROM flights") == [["0"]]
    assert athena.rows("MSCK REPAIR TABLE flights")[0] == [
        "Partitions not in metastore:\tflights:y=2013/m=01\tflights:y=2014/m=12"
    ]
    # An object of two on a line is one row; keys are read in any case; a null is none.
    assert athena.rows('SELECT carrier, delay, tags, info, y, "$path" FROM flights ORDER BY 1') == [
        ["AA", "-3", None, None, "2013", "s3://lake/json/y=2013/m=01/a.gz"],
        ["DL", None, None, None, "2014", "s3://lake/json/y=2014/m=12/b"],
        ["UA", "11", "[a, b]", "{tail=N1}", "2013", "s3://lake/json/y=2013/m=01/a.gz"],
    ]
    assert athena.rows("SELECT carrier FROM flights WHERE m = ?", "'12'") == [["DL"]]
    put(cloud, "json/y=2014/m=12/c", b'{"delay": "late"}\n')
    assert athena.reason("SELECT * FROM flights").startswith(
        "HIVE_BAD_DATA: Error parsing field value 'late' for field 1: For input string: \"late\""
    )
    put(cloud, "json/y=2014/m=12/c", b"not json\n")
    assert athena.reason("SELECT * FROM flights").startswith(
        "HIVE_CURSOR_ERROR: Row is not a valid JSON Object"
    )


def test_names_may_be_quoted_and_have_their_catalogue(athena: Athena):
    athena.run(
        "CREATE EXTERNAL TABLE named (id int) PARTITIONED BY (day string) STORED AS PARQUET "
        "LOCATION 's3://lake/named/'"
    )
    columns = [["id                  "], ["day                 "]]
    for database in ("`db`", '"DB"', "Db"):
        assert athena.rows("SHOW COLUMNS IN named", database=database) == columns
    assert athena.rows("SHOW COLUMNS FROM `named` IN `DB`", database="`other`") == columns
    assert athena.rows("MSCK REPAIR TABLE `AwsDataCatalog`.`db`.`named`") == []
    assert athena.reason("DESCRIBE `other`.`db`.`named`") == (
        "CATALOG_NOT_FOUND: Catalog 'other' not found"
    )
    assert ["named"] in athena.rows("SHOW TABLES IN `awsdatacatalog`.`db`", database="other")
    assert athena.rows("SHOW TBLPROPERTIES `db`.`named` ('EXTERNAL')") == [["TRUE"]]
    lines = [row[0] or "" for row in athena.rows("DESC FORMATTED `db`.`named`")]
    assert lines[0].split() == ["#", "col_name", "data_type", "comment"]
    assert ["Location:", "s3://lake/named/"] in [line.split() for line in lines]
    assert len(athena.rows("DESCRIBE named day")) == 1


def test_a_query_makes_tables_and_adds_to_them(athena: Athena):
    values = "(VALUES ('UA', 11, 2013), ('DL', NULL, 2014)) AS t (carrier, delay, y)"
    made = athena.run(
        f"CREATE TABLE made WITH (format = 'PARQUET', partitioned_by = ARRAY['y']) AS SELECT * FROM {values}"
    )
    assert made["Status"]["State"] == "SUCCEEDED", made["Status"]
    assert made["Statistics"]["DataManifestLocation"].endswith("-manifest.csv")
    assert (
        athena.run(f"CREATE TABLE bare AS SELECT * FROM {values} WITH NO DATA")["Status"]["State"]
        == "SUCCEEDED"
    )
    assert athena.rows("SELECT * FROM bare") == []
    athena.run("INSERT INTO made (carrier, y) VALUES ('ZZ', 2020)")
    athena.run("CREATE VIEW later AS SELECT carrier, y FROM made WHERE y > 2013")
    assert athena.rows("SELECT * FROM later ORDER BY y") == [["DL", "2014"], ["ZZ", "2020"]]
    assert athena.rows("SHOW PARTITIONS made") == [["y=2013"], ["y=2014"], ["y=2020"]]
    assert athena.reason(f"CREATE TABLE made AS SELECT * FROM {values}").startswith(
        "TABLE_ALREADY_EXISTS"
    )
    again = athena.run(f"CREATE TABLE IF NOT EXISTS made AS SELECT * FROM {values}")
    assert again["Status"]["State"] == "SUCCEEDED"
    assert athena.rows("SELECT count(*) FROM made") == [["3"]]
    athena.run("UNLOAD (SELECT carrier FROM made) TO 's3://lake/unload/' WITH (format = 'JSON')")
    assert athena.reason(
        "UNLOAD (SELECT carrier FROM made) TO 's3://lake/unload/' WITH (format = 'JSON')"
    ).startswith("HIVE_PATH_ALREADY_EXISTS")


def test_parquet_orc_and_projected_csv(cloud: InProcessCloud, athena: Athena):
    from pyarrow import orc, parquet

    table = pa.table({"A": [1, 2], "b": ["x", None]})
    for name, write in (("parquet", parquet.write_table), ("orc", orc.write_table)):
        sink = io.BytesIO()
        write(table, sink)
        put(cloud, f"{name}/f", sink.getvalue())
        athena.run(
            f"CREATE EXTERNAL TABLE of_{name} (a bigint, b string, missing int) STORED AS {name} LOCATION 's3://lake/{name}/'"
        )
        assert athena.rows(f"SELECT * FROM of_{name} ORDER BY a") == [
            ["1", "x", None],
            ["2", None, None],
        ]
    # A key is no pattern of others.
    for name in ("f1", "f[1]", "f?", "*"):
        sink = io.BytesIO()
        parquet.write_table(pa.table({"a": [name]}), sink)
        put(cloud, f"signs/{name}", sink.getvalue())
    athena.run(
        "CREATE EXTERNAL TABLE signs (a string) STORED AS PARQUET LOCATION 's3://lake/signs/'"
    )
    assert athena.rows("SELECT a FROM signs ORDER BY a") == [["*"], ["f1"], ["f?"], ["f[1]"]]
    for day in ("2024/01/01", "2024/01/02"):
        put(cloud, f"csv/{day}/f.csv", f'h1,h2\n"a,{day}",3\n'.encode())
    athena.run(
        "CREATE EXTERNAL TABLE of_csv (a string, n int) PARTITIONED BY (dt string) ROW FORMAT SERDE "
        "'org.apache.hadoop.hive.serde2.OpenCSVSerde' LOCATION 's3://lake/csv/' TBLPROPERTIES "
        "('skip.header.line.count'='1', 'projection.enabled'='true', 'projection.dt.type'='date', "
        "'projection.dt.format'='yyyy/MM/dd', 'projection.dt.range'='2024/01/02,NOW', "
        "'storage.location.template'='s3://lake/csv/${dt}/')"
    )
    assert athena.rows("SELECT * FROM of_csv") == [["a,2024/01/02", "3", "2024/01/02"]]
    # What is added lies where the projection finds it.
    athena.run(
        "CREATE EXTERNAL TABLE added (a string) PARTITIONED BY (n int, dt string) ROW FORMAT SERDE "
        f"'{OPENX}' LOCATION 's3://lake/added/' TBLPROPERTIES ('projection.enabled'='true', "
        "'projection.dt.type'='date', "
        "'projection.dt.format'='yyyy/MM/dd', 'projection.dt.range'='2024/01/02,NOW', 'projection.n.type'='integer', "
        "'projection.n.range'='0,99', 'projection.n.digits'='2', "
        "'storage.location.template'='s3://lake/added/${dt}/of-${n}/')"
    )
    athena.run("INSERT INTO added VALUES ('x', 7, '2024/01/02'), ('y', 8, '2024/01/03')")
    assert athena.rows('SELECT a, n, dt FROM added ORDER BY a') == [
        ["x", "7", "2024/01/02"], ["y", "8", "2024/01/03"],
    ]  # fmt: skip
    assert "no partition" in athena.reason("INSERT INTO added VALUES ('z', 7, '2023/01/02')")


@pytest.mark.slow
def test_an_iceberg_table_is_read(cloud: InProcessCloud, athena: Athena):
    pytest.importorskip("pyiceberg")
    glue = cloud.client("glue")
    columns = [{"Name": "id", "Type": "bigint"}, {"Name": "v", "Type": "string"}]
    glue.create_table(
        DatabaseName="db",
        TableInput={
            "Name": "ice",
            "StorageDescriptor": {"Location": "s3://lake/ice", "Columns": columns},
        },
        OpenTableFormatInput={"IcebergInput": {"MetadataOperation": "CREATE", "Version": "2"}},
    )
    assert athena.rows("SELECT count(v) FROM ice") == [["0"]]
    athena.run("INSERT INTO ice VALUES (1, 'a')")
    assert athena.rows("SELECT count(v) FROM ice") == [["1"]]


def test_rules_hear_of_queries(cloud: InProcessCloud, athena: Athena):
    sqs, events = cloud.client("sqs"), cloud.client("events")
    queue = sqs.create_queue(QueueName="told")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    pattern = {"source": ["aws.athena"], "detail": {"currentState": ["SUCCEEDED", "FAILED"]}}
    events.put_rule(Name="r", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="r", Targets=[{"Id": "q", "Arn": arn}])
    query_id = athena.run("SHOW DATABASES")["QueryExecutionId"]
    (message,) = wait_until(lambda: sqs.receive_message(QueueUrl=queue).get("Messages"))
    event = json.loads(message["Body"])
    assert event["detail-type"] == "Athena Query State Change"
    assert event["detail"] == {
        "versionId": "0", "currentState": "SUCCEEDED", "previousState": "RUNNING", "statementType": "UTILITY",
        "queryExecutionId": query_id, "workgroupName": "primary", "sequenceNumber": "3",
    }  # fmt: skip


def test_results_have_their_types_and_lie_in_s3(cloud: InProcessCloud, athena: Athena):
    shown = athena.run(
        "SELECT 1 AS a, CAST(NULL AS varchar) AS b, 1.5E0 AS c, '' AS d, DATE '2013-01-01'"
    )
    assert (
        shown["ResultConfiguration"]["OutputLocation"]
        == f"s3://results/out/{shown['QueryExecutionId']}.csv"
    )
    body = cloud.client("s3").get_object(
        Bucket="results", Key=f"out/{shown['QueryExecutionId']}.csv"
    )
    assert body["Body"].read() == b'"a","b","c","d","_col4"\n"1",,"1.5","","2013-01-01"\n'
    answer = athena.client.get_query_results(QueryExecutionId=shown["QueryExecutionId"])
    columns = answer["ResultSet"]["ResultSetMetadata"]["ColumnInfo"]
    assert [(one["Name"], one["Type"]) for one in columns] == [
        ("a", "integer"), ("b", "varchar"), ("c", "double"), ("d", "varchar"), ("_col4", "date"),
    ]  # fmt: skip
    assert answer["ResultSet"]["Rows"][1]["Data"][1] == {}


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT * FROM nope", "TABLE_NOT_FOUND: Table 'awsdatacatalog.db.nope' does not exist"),
        ("SELECT * FROM nodb.t", "SCHEMA_NOT_FOUND: Schema 'nodb' does not exist"),
        pytest.param(
            "SELECT nope FROM (SELECT 1 AS a)",
            "COLUMN_NOT_FOUND: Column 'nope' cannot be resolved",
            marks=pytest.mark.slow,
        ),
        pytest.param("SELECT cast('a' AS int)", "INVALID_CAST_ARGUMENT: ", marks=pytest.mark.slow),
        ("SELECT 1 / 0", "DIVISION_BY_ZERO: Division by zero"),
        (f"SELECT {'(' * 5000}1", "line 1:1: statement is too large (stack overflow while"),
        # A file of this machine is no table.
        ("SELECT * FROM '/etc/hostname'", "TABLE_NOT_FOUND: "),
        ("SELECT * FROM LATERAL read_text('/etc/hostname')", "GENERIC_USER_ERROR: Cannot access"),
    ],
)
def test_a_query_that_cannot_run_fails_with_a_reason(athena: Athena, sql: str, reason: str):
    assert athena.reason(sql).startswith(reason)


def test_a_query_that_needs_more_memory_than_it_may_have_fails(
    athena: Athena, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(queries, "MEMORY_BYTES", 64 * 1024**2)
    hungry = "SELECT array_agg(x) FROM UNNEST(sequence(1, 100000000)) AS t (x)"
    assert athena.reason(hungry).startswith("EXCEEDED_MEMORY_LIMIT: ")


def test_a_running_query_can_be_stopped(athena: Athena):
    client = athena.client
    query_id = client.start_query_execution(QueryString=ENDLESS, ResultConfiguration=OUTPUT)[
        "QueryExecutionId"
    ]

    def state() -> str:
        shown = client.get_query_execution(QueryExecutionId=query_id)["QueryExecution"]
        return str(shown["Status"]["State"])

    wait_until(lambda: state() == "RUNNING")
    with pytest.raises(ClientError, match=r"not yet finished\. Current state: RUNNING"):
        client.get_query_results(QueryExecutionId=query_id)
    client.stop_query_execution(QueryExecutionId=query_id)
    assert state() == "CANCELLED"
    with pytest.raises(ClientError, match="Query did not finish successfully"):
        client.get_query_results(QueryExecutionId=query_id)


def test_requests_that_athena_refuses(athena: Athena):
    client = athena.client
    for refused, message in (
        ({"QueryString": "SELECT 1"}, "No output location provided"),
        (
            {"QueryString": "SELECT 1", "ResultConfiguration": {"OutputLocation": "x"}},
            "not a valid S3 path",
        ),
        ({"QueryString": "SELECT 1", "WorkGroup": "none"}, "WorkGroup none is not found"),
        ({"QueryString": " ", "ResultConfiguration": OUTPUT}, "queryString"),
    ):
        with pytest.raises(ClientError, match=message) as error:
            client.start_query_execution(**refused)
        assert error.value.response["Error"]["Code"] == "InvalidRequestException"
    with pytest.raises(ClientError, match="was not found"):
        client.get_query_execution(QueryExecutionId="none")
    token = "t" * 32
    started = [
        client.start_query_execution(
            QueryString="SELECT 1", ResultConfiguration=OUTPUT, ClientRequestToken=token
        )
        for _ in range(2)
    ]
    assert started[0]["QueryExecutionId"] == started[1]["QueryExecutionId"]


def test_the_catalogue_is_glues(athena: Athena, cloud: InProcessCloud):
    cloud.client("glue").create_database(DatabaseInput={"Name": "other", "Description": "d"})
    databases = athena.client.list_databases(CatalogName="AwsDataCatalog")["DatabaseList"]
    assert {"Name": "other", "Description": "d", "Parameters": {}} in databases
    athena.run("CREATE EXTERNAL TABLE other.t (a int) STORED AS PARQUET LOCATION 's3://lake/none/'")
    named = {"CatalogName": "AwsDataCatalog", "DatabaseName": "other"}
    table = athena.client.get_table_metadata(**named, TableName="t")["TableMetadata"]
    assert table["Columns"] == [{"Name": "a", "Type": "int"}]
    assert athena.rows("SHOW TABLES IN other") == [["t"]]
    assert athena.rows(
        "SELECT column_name, data_type, ordinal_position FROM information_schema.columns WHERE table_schema = 'other'"
    ) == [["a", "integer", "1"]]
    assert "not empty" in athena.reason("DROP DATABASE other")
    # A view's names are of the database in which it was created, not of the view's own.
    athena.run("CREATE VIEW other.v AS SELECT count(*) AS n FROM counted")
    athena.run("CREATE EXTERNAL TABLE counted (a int) STORED AS PARQUET LOCATION 's3://lake/none/'")
    assert athena.rows("SELECT n FROM other.v") == [["0"]]
    athena.run("DROP DATABASE other CASCADE")
    with pytest.raises(ClientError, match="Database other not found"):
        athena.client.list_table_metadata(**named)


def test_a_query_that_a_stop_of_the_cloud_ends_is_failed(tmp_path: Any):
    with InProcessCloud(tmp_path / "data") as cloud:
        cloud.client("s3").create_bucket(Bucket="results")
        client = cloud.client("athena")
        ids = [
            client.start_query_execution(
                QueryString=ENDLESS,
                ResultConfiguration=OUTPUT,
            )["QueryExecutionId"]
            for _ in range(6)
        ]
        states = [
            client.get_query_execution(QueryExecutionId=one)["QueryExecution"]["Status"]["State"]
            for one in ids
        ]
        assert states[-1] == "QUEUED"
    with InProcessCloud(tmp_path / "data") as cloud:
        client = cloud.client("athena")
        for one in client.batch_get_query_execution(QueryExecutionIds=ids)["QueryExecutions"]:
            assert one["Status"]["State"] == "FAILED"
            assert one["Status"]["StateChangeReason"] == "headrace was stopped while the query ran."


def test_a_query_has_the_rights_of_its_caller(tmp_path: Any):
    with InProcessCloud(tmp_path / "data", iam="enforce") as cloud:
        for bucket in ("results", "lake"):
            cloud.client("s3").create_bucket(Bucket=bucket)
        put(cloud, "t/f", b'{"a": 1}')
        own = Athena(cloud)
        own.run("CREATE DATABASE db")
        own.run(
            f"CREATE EXTERNAL TABLE t (a int) ROW FORMAT SERDE '{OPENX}' LOCATION 's3://lake/t/'"
        )
        assert own.rows("SELECT a FROM t") == [["1"]]
        allowed = [
            allow("athena:*", "*"),
            allow(["s3:PutObject"], "arn:aws:s3:::results/*"),
            allow(["glue:GetTable", "glue:GetDatabase"], "*"),
            allow(["s3:ListBucket"], "arn:aws:s3:::lake"),
        ]
        reader = Athena(cloud)
        make_role(cloud, "reader", *allowed, trusts=f"arn:aws:iam::{ACCOUNT}:root")
        reader.client = as_role(cloud, "reader", "athena")
        assert reader.reason("SELECT a FROM t").startswith(
            "PERMISSION_DENIED: Access denied when reading s3://lake/t/f"
        )
        assert "glue:DeleteTable" in reader.reason("DROP TABLE t")
        # Nor what an Iceberg table's metadata names, nor what a list or a result would tell.
        cloud.client("glue").create_table(
            DatabaseName="db",
            TableInput={
                "Name": "ice",
                "Parameters": {"table_type": "ICEBERG", "metadata_location": "s3://lake/t/f"},
            },
        )
        assert reader.reason("SELECT * FROM ice").startswith(
            "PERMISSION_DENIED: Access denied when reading s3://lake/t/f"
        )
        assert reader.reason(
            "UNLOAD (SELECT 1) TO 's3://results/u/' WITH (format = 'JSON')"
        ).startswith("PERMISSION_DENIED: Access denied when listing s3://results/u/")
        with pytest.raises(ClientError, match="Access denied when reading location: s3://results"):
            reader.rows("SELECT 2")
        allowed.append(allow("s3:GetObject", "arn:aws:s3:::results/*"))
        make_role(cloud, "full", *allowed, trusts=f"arn:aws:iam::{ACCOUNT}:root")
        reader.client = as_role(cloud, "full", "athena")
        assert reader.rows("SELECT 2") == [["2"]]
        # A session has no more than its own policy allows.
        make_role(cloud, "all", allow("*", "*"), trusts=f"arn:aws:iam::{ACCOUNT}:root")
        reader.client = as_role(cloud, "all", "athena")
        assert reader.rows("SELECT a FROM t") == [["1"]]
        limits = json.dumps(statements(*allowed))
        reader.client = as_role(cloud, "all", "athena", policy=limits)
        assert reader.reason("SELECT a FROM t").startswith("PERMISSION_DENIED")
        # A user's session has the user's rights, not the account's.
        iam = cloud.client("iam")
        iam.create_user(UserName="u")
        policy = json.dumps(statements(*allowed, allow("sts:*", "*")))
        iam.put_user_policy(UserName="u", PolicyName="own", PolicyDocument=policy)
        key = iam.create_access_key(UserName="u")["AccessKey"]["AccessKeyId"]
        keys = cloud.client("sts", account=key).get_session_token()["Credentials"]
        reader.client = client_of(
            "athena",
            cloud.handle,
            account=keys["AccessKeyId"],
            region=REGION,
            token=keys["SessionToken"],
        )
        assert reader.reason("SELECT a FROM t").startswith("PERMISSION_DENIED")


def test_a_prepared_statement_is_executed_with_its_values(athena: Athena):
    assert athena.run("PREPARE p1 FROM SELECT ? AS a, ? AS b")["Status"]["State"] == "SUCCEEDED"
    assert athena.rows("EXECUTE p1 USING 'it''s, (so', 7;") == [["it's, (so", "7"]]
    assert athena.rows("execute p1", "'x'", "1") == [["x", "1"]]
    named = {"StatementName": "by_api", "WorkGroup": "primary", "QueryStatement": "SELECT 5 AS n"}
    athena.client.create_prepared_statement(**named)
    assert athena.rows("EXECUTE by_api") == [["5"]]
    with pytest.raises(ClientError, match="p1 already exists"):
        athena.run("PREPARE p1 FROM SELECT 1")
    assert athena.run("DEALLOCATE PREPARE p1")["Status"]["State"] == "SUCCEEDED"
    with pytest.raises(ClientError, match="p1 was not found"):
        athena.run("DEALLOCATE PREPARE p1")
    assert athena.reason("EXECUTE p1 USING 1") == "NOT_FOUND: Prepared statement not found: p1"


def test_a_truncated_date_is_a_date(athena: Athena):
    dates = "(VALUES (DATE '2026-11-27'), (NULL)) AS t (d)"
    assert athena.rows(f"SELECT date_trunc('month', d), date_trunc('WEEK', d) FROM {dates}") == [
        ["2026-11-01", "2026-11-23"],
        [None, None],
    ]
    moment = "TIMESTAMP '2026-11-27 12:34:56.789'"
    (row,) = athena.rows(f"SELECT date_trunc('hour', {moment}), date_trunc('year', current_date)")
    assert row[0] == "2026-11-27 12:00:00.000"
    assert row[1] is not None
    assert len(row[1]) == len("2026-01-01")


def test_the_primary_work_group_has_the_date_of_its_creation(cloud: InProcessCloud):
    athena = cloud.client("athena")
    (made,) = {
        athena.get_work_group(WorkGroup="primary")["WorkGroup"]["CreationTime"] for _ in range(2)
    }
    assert made in [group["CreationTime"] for group in athena.list_work_groups()["WorkGroups"]]
