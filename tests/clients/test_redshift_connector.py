"""Amazon's own Python driver on a cluster and on a workgroup of this cloud."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pytest
import redshift_connector

from tests.api.kinesis.live import LiveCloud
from tests.support.cloud import InProcessCloud

PASSWORD = "Secret123"
Connect = Callable[..., Any]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("driver") / "data") as cloud:
        cloud.client("redshift").create_cluster(
            ClusterIdentifier="c",
            NodeType="ra3.large",
            MasterUsername="boss",
            MasterUserPassword=PASSWORD,
            Port=5610,
        )
        # The server is up when a statement has run.
        run(cloud, "create table events (id int, body super)")
        yield cloud


def run(cloud: InProcessCloud, sql: str) -> None:
    data = cloud.client("redshift-data")
    begun = data.execute_statement(ClusterIdentifier="c", Database="dev", DbUser="boss", Sql=sql)
    assert data.describe_statement(Id=begun["Id"], WaitTimeSeconds=30)["Status"] == "FINISHED"


@pytest.fixture
def address(cloud: InProcessCloud) -> tuple[str, int]:
    at = cloud.client("redshift").describe_clusters()["Clusters"][0]["Endpoint"]
    return at["Address"], at["Port"]


@pytest.fixture
def connect(address: tuple[str, int]) -> Iterator[Connect]:
    opened: list[Any] = []

    def connect(**more: Any) -> Any:
        settings = {"user": "boss", "password": PASSWORD, "database": "dev", "ssl": False}
        where = {"host": address[0], "port": address[1]}
        opened.append(redshift_connector.connect(**{**settings, **where, **more}))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def test_values_of_every_type_come_back(connect: Connect) -> None:
    values = (
        Decimal("12.34"), dt.datetime(2026, 1, 2, 3, 4, 5), dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
        dt.date(2026, 1, 2), dt.time(1, 2, 3), "an é", "abc", True, 3, 7, 1 << 40, 2.5, 1.5, None,
    )  # fmt: skip
    cursor = connect().cursor()
    cursor.execute(
        "create temp table t (n numeric(10,2), at timestamp, tz timestamptz, d date, c time, v varchar(20), f char(3),"
        " b boolean, s smallint, i int, l bigint, r real, e double precision, nothing varchar(5))"
    )
    cursor.execute(f"insert into t values ({', '.join(['%s'] * len(values))})", values)
    assert cursor.rowcount == 1
    cursor.execute("select * from t")
    assert tuple(cursor.fetchone()) == values
    assert cursor.fetchone() is None


def test_a_super_comes_as_text(cloud: InProcessCloud, connect: Connect) -> None:
    run(cloud, """insert into events values (1, json_parse('{"a": [1, 2]}'))""")
    cursor = connect().cursor()
    cursor.execute("select body from events where id = %s", (1,))
    assert cursor.fetchall() == (['{"a": [1, 2]}'],)


@pytest.mark.parametrize(
    ("style", "sql", "arguments"),
    [
        ("format", "select %s::int + 1", (6,)),
        ("qmark", "select ?::int + 1", (6,)),
        ("numeric", "select :1::int + 1", (6,)),
        ("named", "select cast(:n as int) + 1", {"n": 6}),
        ("pyformat", "select %(n)s::int + 1", {"n": 6}),
    ],
)
def test_parameters_in_every_style(connect: Connect, style: str, sql: str, arguments: Any) -> None:
    cursor = connect().cursor()
    cursor.paramstyle = style
    cursor.execute(sql, arguments)
    assert cursor.fetchall() == ([7],)


def test_rows_and_frames(connect: Connect) -> None:
    cursor = connect().cursor()
    cursor.execute("create temp table r (id int, name varchar)")
    cursor.executemany("insert into r values (%s, %s)", [(1, "a"), (2, None), (3, "c")])
    assert cursor.rowcount == 3
    cursor.execute("select * from r order by id")
    assert cursor.fetchmany(2) == ([1, "a"], [2, None])
    assert list(cursor) == [[3, "c"]]
    cursor.execute("select * from r order by id")
    frame = cursor.fetch_dataframe()
    assert (list(frame.columns), list(frame["name"])) == (["id", "name"], ["a", None, "c"])


def test_a_frame_is_written(connect: Connect) -> None:
    cursor = connect().cursor()
    cursor.execute("create table frames (id int, name varchar)")
    cursor.write_dataframe(pd.DataFrame({"id": [1, 2], "name": ["a", "b"]}), "frames")
    cursor.execute("select * from frames order by id")
    assert cursor.fetchall() == ([1, "a"], [2, "b"])


def test_transactions_and_errors(connect: Connect) -> None:
    one, two = connect(), connect()
    writing, reading = one.cursor(), two.cursor()
    writing.execute("create table kept (n int)")
    one.commit()
    writing.execute("insert into kept values (1)")
    reading.execute("select count(*) from kept")
    assert reading.fetchall() == ([0],)
    one.commit()
    reading.execute("select count(*) from kept")
    assert reading.fetchall() == ([1],)
    writing.execute("insert into kept values (2)")
    with pytest.raises(redshift_connector.ProgrammingError) as refused:
        writing.execute("select * from nowhere")
    assert refused.value.args[0]["C"] == "42P01"
    one.rollback()
    writing.execute("select * from kept")
    assert writing.fetchall() == ([1],)
    one.rollback()
    one.autocommit = True
    writing.execute("vacuum kept")


def test_what_the_driver_says_of_databases_schemas_tables_keys_and_procedures(
    connect: Connect,
) -> None:
    connection = connect()
    cursor = connection.cursor()
    cursor.execute("create table keyed (id int primary key, name varchar(9))")
    connection.commit()
    for both in (cursor, connect(database_metadata_current_db_only=False).cursor()):
        assert ["dev"] in both.get_catalogs()
        assert ["public", "dev"] in both.get_schemas()
        assert "keyed" in [row[2] for row in both.get_tables(table_name_pattern="keyed")]
    assert [row[3] for row in cursor.get_primary_keys(schema="public", table="keyed")] == ["id"]
    assert "json_parse" in [row[2] for row in cursor.get_procedures(schema_pattern="headrace")]


@pytest.mark.parametrize(
    ("wrong", "state"),
    [({"password": "no"}, "28P01"), ({"user": "rdsdb"}, "28000"), ({"database": "no"}, "3D000")],
)
def test_a_login_that_is_none(connect: Connect, wrong: dict[str, str], state: str) -> None:
    with pytest.raises(redshift_connector.Error, match=state):
        connect(**wrong)


# The driver's own call of Python's ssl.
@pytest.mark.filterwarnings("ignore:ssl:DeprecationWarning")
@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
def test_tls_with_the_clouds_certificate(
    cloud: InProcessCloud, connect: Connect, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    with pytest.raises(redshift_connector.InterfaceError, match="CERTIFICATE_VERIFY_FAILED"):
        connect(ssl=True, sslmode=mode)
    monkeypatch.setenv("SSL_CERT_FILE", str(cloud.cloud.tls.trust_file()))
    cursor = connect(ssl=True, sslmode=mode).cursor()
    cursor.execute("select repeat('x', 60000) from generate_series(1, 20)")
    assert cursor.fetchall() == ([("x" * 60000)],) * 20


@pytest.mark.filterwarnings("ignore:ssl:DeprecationWarning")
def test_a_login_by_iam(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with LiveCloud(tmp_path / "data") as live:
        live.client("redshift").create_cluster(
            ClusterIdentifier="c",
            NodeType="ra3.large",
            MasterUsername="boss",
            MasterUserPassword=PASSWORD,
            Port=5620,
        )
        monkeypatch.setenv("SSL_CERT_FILE", str(live.cloud.tls.trust_file()))
        data = live.client("redshift-data")
        begun = data.execute_statement(
            ClusterIdentifier="c", Database="dev", DbUser="boss", Sql="select 1"
        )
        assert data.describe_statement(Id=begun["Id"], WaitTimeSeconds=30)["Status"] == "FINISHED"
        connection = redshift_connector.connect(
            iam=True,
            cluster_identifier="c",
            db_user="reader",
            auto_create=True,
            database="dev",
            endpoint_url=f"http://127.0.0.1:{live.port}",
            region="us-east-1",
            access_key_id="test",
            secret_access_key="test",
        )
        cursor = connection.cursor()
        cursor.execute("select current_user")
        assert cursor.fetchall() == (["reader"],)
        connection.close()


def test_the_password_of_get_cluster_credentials(cloud: InProcessCloud, connect: Connect) -> None:
    login = cloud.client("redshift").get_cluster_credentials(
        ClusterIdentifier="c", DbUser="reader", DbName="dev", AutoCreate=True
    )
    cursor = connect(user=login["DbUser"], password=login["DbPassword"]).cursor()
    cursor.execute("select current_user")
    assert cursor.fetchall() == (["reader"],)


@pytest.mark.slow
def test_the_password_of_serverless_get_credentials(
    cloud: InProcessCloud, connect: Connect
) -> None:
    serverless: Any = cloud.client("redshift-serverless")
    serverless.create_namespace(namespaceName="lake", dbName="flights")
    serverless.create_workgroup(workgroupName="lake", namespaceName="lake", port=5620)
    login = serverless.get_credentials(workgroupName="lake", durationSeconds=1800)
    at = serverless.get_workgroup(workgroupName="lake")["workgroup"]["endpoint"]
    cursor = connect(
        host=at["address"],
        port=at["port"],
        user=login["dbUser"],
        password=login["dbPassword"],
        database="flights",
    ).cursor()
    cursor.execute("select current_database()")
    assert cursor.fetchall() == (["flights"],)


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
def test_other_drivers_log_in_as_before(address: tuple[str, int], mode: str) -> None:
    with psycopg.connect(
        host=address[0], port=address[1], user="boss", password=PASSWORD, dbname="dev", sslmode=mode
    ) as connection:
        assert connection.execute("select current_user").fetchone() == ("boss",)


def test_a_user_with_a_scram_secret_logs_in(address: tuple[str, int]) -> None:
    where = {"host": address[0], "port": address[1], "dbname": "dev"}
    with psycopg.connect(**where, user="boss", password=PASSWORD) as connection:
        connection.execute("set password_encryption = 'scram-sha-256'")
        connection.execute("create user older password 'Older123'")
    with psycopg.connect(
        **where, user="older", password="Older123", require_auth="scram-sha-256"
    ) as connection:
        assert connection.execute("select current_user").fetchone() == ("older",)


def test_a_running_statement_is_cancelled(address: tuple[str, int]) -> None:
    with psycopg.connect(
        host=address[0], port=address[1], user="boss", password=PASSWORD, dbname="dev"
    ) as connection, psycopg.connect(
        host=address[0], port=address[1], user="boss", password=PASSWORD, dbname="dev",
        autocommit=True,
    ) as watching:  # fmt: skip
        running = "select count(*) from pg_stat_activity where pid = %s and query ~ 'pg_sleep' and state = 'active'"

        def cancel() -> None:
            while watching.execute(running, [connection.info.backend_pid]).fetchone() != (1,):
                pass
            connection.cancel_safe()

        other = threading.Thread(target=cancel)
        other.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("select pg_sleep(600)")
        other.join()


@pytest.mark.skipif(shutil.which("psql") is None, reason="no psql on this machine")
def test_psql_with_its_defaults(address: tuple[str, int], tmp_path: Path) -> None:
    done = subprocess.run(
        ["psql", "-h", address[0], "-p", str(address[1]), "-U", "boss", "-Atc", "select 7", "dev"],
        env={"PGPASSWORD": PASSWORD, "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("7\n", "")
