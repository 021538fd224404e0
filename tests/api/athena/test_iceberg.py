"""Iceberg tables through Athena's statements, and as other readers see them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.athena.test_queries import Athena
from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.iam import allow, as_role, make_role

pytest.importorskip("duckdb")
pytest.importorskip("pyiceberg")
ICEBERG = "TBLPROPERTIES ('table_type'='ICEBERG')"
AS_ICEBERG = "table_type='ICEBERG', is_external=false"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("athena") / "data") as cloud:
        for bucket in ("results", "lake"):
            cloud.client("s3").create_bucket(Bucket=bucket)
        cloud.client("glue").create_database(DatabaseInput={"Name": "db"})
        yield cloud


@pytest.fixture(scope="module")
def athena(cloud: InProcessCloud) -> Athena:
    return Athena(cloud)


def succeed(athena: Athena, sql: str) -> dict[str, Any]:
    shown = athena.run(sql)
    assert shown["Status"]["State"] == "SUCCEEDED", (sql, shown["Status"])
    return shown


def keys_of(cloud: InProcessCloud, prefix: str) -> list[str]:
    answer = cloud.client("s3").list_objects_v2(Bucket="lake", Prefix=prefix)
    return [one["Key"] for one in answer.get("Contents", [])]


def test_an_iceberg_table_is_made_filled_and_merged_into(cloud: InProcessCloud, athena: Athena):
    succeed(
        athena,
        "CREATE TABLE first (id bigint, at timestamp, name string) PARTITIONED BY (bucket(4, id), day(at)) "
        f"LOCATION 's3://lake/first/' {ICEBERG}",
    )
    made = succeed(
        athena,
        "INSERT INTO first VALUES (1, TIMESTAMP '2024-01-01 10:00:00', 'a'), (2, NULL, 'b'), (3, NULL, 'c')",
    )
    assert made["SubstatementType"] == "INSERT"
    succeed(
        athena,
        "MERGE INTO \"db\".\"first\" target USING (VALUES (2, 'B'), (3, NULL), (9, 'new')) AS source (id, name) "
        "ON (target.id = source.id) WHEN MATCHED AND source.name IS NULL THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET name = source.name "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (source.id, source.name)",
    )
    assert athena.rows("SELECT id, name, at FROM first ORDER BY id") == [
        ["1", "a", "2024-01-01 10:00:00.000"], ["2", "B", None], ["9", "new", None],
    ]  # fmt: skip
    assert athena.reason('DELETE FROM "first$files"') == (
        "NOT_SUPPORTED: This connector does not support modifying table rows"
    )
    table = cloud.client("glue").get_table(DatabaseName="db", Name="first")["Table"]
    assert table["Parameters"]["metadata_location"].startswith("s3://lake/first/metadata/00002-")
    assert "s3://lake/first/metadata/00001-" in table["Parameters"]["previous_metadata_location"]


@pytest.mark.slow
def test_rows_change_and_their_history_stays(cloud: InProcessCloud, athena: Athena):
    succeed(
        athena,
        f"CREATE TABLE kept WITH ({AS_ICEBERG}, location='s3://lake/kept/', partitioning=ARRAY['bucket(id, 2)']) AS "
        "SELECT CAST(x AS bigint) AS id, ARRAY[x] AS l, MAP(ARRAY['k'], ARRAY[x]) AS m "
        "FROM UNNEST(sequence(1, 6)) AS t (x)",
    )
    again = succeed(
        athena,
        f"CREATE TABLE IF NOT EXISTS kept WITH ({AS_ICEBERG}, location='s3://lake/kept/') AS SELECT 1 AS a",
    )
    assert again["SubstatementType"] == "CREATE_TABLE_AS_SELECT"
    (version,) = athena.rows('SELECT snapshot_id FROM "kept$history"')
    succeed(athena, "UPDATE kept SET l = ARRAY[9, 9] WHERE id IN (SELECT max(id) FROM kept)")
    succeed(athena, "DELETE FROM kept WHERE id < 4")
    assert athena.rows("SELECT id, l, m FROM kept ORDER BY id") == [
        ["4", "[4]", "{k=4}"], ["5", "[5]", "{k=5}"], ["6", "[9, 9]", "{k=6}"],
    ]  # fmt: skip
    assert athena.rows(
        f"SELECT count(*), count(b.id) FROM kept FOR VERSION AS OF {version[0]} a LEFT JOIN kept b ON a.id = b.id"
    ) == [["6", "3"]]
    assert athena.rows(
        "SELECT count(*) FROM kept FOR TIMESTAMP AS OF (current_timestamp + interval '1' day)"
    ) == [["3"]]
    assert athena.reason(
        "SELECT * FROM kept FOR TIMESTAMP AS OF TIMESTAMP '2001-01-01 00:00:00 UTC'"
    ).startswith('INVALID_ARGUMENTS: No version history table "db"."kept" at or before 2001-01-01')
    assert athena.reason("SELECT * FROM kept FOR VERSION AS OF 5") == (
        "INVALID_ARGUMENTS: Iceberg snapshot ID does not exists: 5"
    )
    twice = "(VALUES (4), (4)) AS s (id)"
    assert athena.reason(
        f"MERGE INTO kept USING {twice} ON kept.id = s.id WHEN MATCHED THEN DELETE"
    ) == (
        "MERGE_TARGET_ROW_MULTIPLE_MATCHES: One MERGE target table row matched more than one source row"
    )
    assert athena.rows('SELECT operation FROM "kept$snapshots" ORDER BY committed_at') == [
        ["append"], ["overwrite"], ["overwrite"],
    ]  # fmt: skip
    assert athena.rows(
        "SELECT sum(record_count), bool_and(file_path LIKE 's3://lake/kept/data/%') FROM \"kept$files\""
    ) == [["3", "true"]]
    assert athena.rows(
        'SELECT sum(record_count), max(partition.id_bucket) FROM "kept$partitions"'
    ) in ([["3", "0"]], [["3", "1"]])


@pytest.mark.slow
def test_a_schema_changes_and_a_table_is_tended(cloud: InProcessCloud, athena: Athena):
    succeed(athena, f"CREATE TABLE tended (a int, b string) LOCATION 's3://lake/tended/' {ICEBERG}")
    for number in range(2):
        succeed(athena, f"INSERT INTO tended VALUES ({number}, 'x')")
    succeed(athena, "ALTER TABLE tended ADD COLUMNS (c int, d struct<e:int>)")
    succeed(athena, "ALTER TABLE tended CHANGE COLUMN c cc bigint COMMENT 'wider' FIRST")
    succeed(athena, "ALTER TABLE tended DROP COLUMN b")
    succeed(
        athena,
        "ALTER TABLE tended SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds'='0', "
        "'optimize_rewrite_data_file_threshold'='2')",
    )
    assert athena.reason("ALTER TABLE tended SET TBLPROPERTIES ('some'='x')") == (
        "Unsupported table property key: some"
    )
    assert athena.run("SELECT a FROM tended")["Statistics"]["DataScannedInBytes"] > 0
    assert athena.rows("SELECT * FROM tended ORDER BY a") == [
        [None, "0", None], [None, "1", None],
    ]  # fmt: skip
    succeed(athena, "OPTIMIZE tended REWRITE DATA USING BIN_PACK WHERE a < 10")
    assert athena.rows('SELECT record_count FROM "tended$files"') == [["2"]]
    before = keys_of(cloud, "tended/data/")
    succeed(athena, "VACUUM tended")
    assert len(before) == 3
    assert len(keys_of(cloud, "tended/data/")) == 1
    assert athena.rows('SELECT count(*) FROM "tended$snapshots"') == [["1"]]
    lines = [row[0] for row in athena.rows("SHOW CREATE TABLE tended")]
    assert lines[:2] == ["CREATE TABLE db.tended (", "  cc bigint COMMENT 'wider',"]
    succeed(athena, "ALTER TABLE `db`.`tended` RENAME TO `db`.`moved`")
    assert athena.rows("SELECT count(*) FROM moved") == [["2"]]
    succeed(athena, "DROP TABLE moved")
    assert keys_of(cloud, "tended/") == []


@pytest.mark.slow
def test_writers_at_once_lose_no_rows(athena: Athena):
    succeed(athena, f"CREATE TABLE shared (a int) LOCATION 's3://lake/shared/' {ICEBERG}")
    writers = [
        threading.Thread(target=athena.run, args=(f"INSERT INTO shared VALUES ({number})",))
        for number in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert athena.rows("SELECT a FROM shared ORDER BY a") == [["0"], ["1"], ["2"], ["3"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "DELETE FROM hive",
            "NOT_SUPPORTED: Modifying Hive table rows is only supported for transactional tables",
        ),
        ("VACUUM hive", "NOT_SUPPORTED: VACUUM is for Iceberg tables alone"),
        (
            "SELECT * FROM hive FOR VERSION AS OF 1",
            "NOT_SUPPORTED: The table hive has no versions: Iceberg tables have",
        ),
        (
            f"CREATE TABLE x WITH ({AS_ICEBERG}, location='s3://lake/hive/') AS SELECT 1 AS a",
            "ICEBERG_FILESYSTEM_ERROR: Cannot create a table on a non-empty location: s3://lake/hive/",
        ),
        (
            f"CREATE TABLE x WITH ({AS_ICEBERG}, location='s3://lake/x/') AS SELECT CAST(1 AS smallint) AS a",
            "NOT_SUPPORTED: Type not supported for Iceberg: smallint",
        ),
        (
            f"CREATE TABLE x (a int) PARTITIONED BY (day(b)) LOCATION 's3://lake/x/' {ICEBERG}",
            "INVALID_TABLE_PROPERTY: Unable to parse partitioning value: Cannot find source column: b",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    cloud: InProcessCloud, athena: Athena, sql: str, reason: str
):
    cloud.client("s3").put_object(Bucket="lake", Key="hive/f", Body=b"x\n")
    athena.run("CREATE EXTERNAL TABLE IF NOT EXISTS hive (a string) LOCATION 's3://lake/hive/'")
    assert athena.reason(sql) == reason


@pytest.mark.slow
def test_a_change_has_the_rights_of_its_caller(tmp_path: Any):
    with InProcessCloud(tmp_path / "data", iam="enforce") as cloud:
        for bucket in ("results", "lake"):
            cloud.client("s3").create_bucket(Bucket=bucket)
        own = Athena(cloud)
        succeed(own, "CREATE DATABASE db")
        succeed(own, f"CREATE TABLE t (a int) LOCATION 's3://lake/t/' {ICEBERG}")
        succeed(own, "INSERT INTO t VALUES (1)")
        allowed = [
            allow("athena:*", "*"),
            allow(["s3:PutObject"], "arn:aws:s3:::results/*"),
            allow(["s3:GetObject"], "*"),
            allow(["glue:GetTable", "glue:GetDatabase", "glue:CreateTable"], "*"),
        ]
        reader = Athena(cloud)
        make_role(cloud, "reader", *allowed, trusts=f"arn:aws:iam::{ACCOUNT}:root")
        reader.client = as_role(cloud, "reader", "athena")
        assert "Access denied when writing" in reader.reason("INSERT INTO t VALUES (2)")
        assert "Access denied when writing" in reader.reason(
            f"CREATE TABLE u (a int) LOCATION 's3://lake/u/' {ICEBERG}"
        )
        allowed.append(allow("s3:PutObject", "*"))
        make_role(cloud, "writer", *allowed, trusts=f"arn:aws:iam::{ACCOUNT}:root")
        reader.client = as_role(cloud, "writer", "athena")
        assert "glue:UpdateTable" in reader.reason("DELETE FROM t")
        assert own.rows("SELECT a FROM t") == [["1"]]
