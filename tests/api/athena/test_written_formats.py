"""The files that CREATE TABLE AS, INSERT and UNLOAD write, as other readers see them."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from tests.api.athena.test_queries import Athena
from tests.support.cloud import InProcessCloud

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
ALL_KINDS = """SELECT 1 AS i, BIGINT '2' AS b, 1.5e0 AS d, decimal '1.50' AS m, 'é' AS s, true AS t,
    DATE '2026-11-29' AS day, TIMESTAMP '2026-11-29 01:02:03.000' AS at, ARRAY[1, 2] AS a,
    map(ARRAY['x'], ARRAY[1]) AS p, CAST(ROW(1, 'q') AS ROW(n integer, w varchar)) AS r, CAST(NULL AS double) AS none"""


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


def succeed(athena: Athena, sql: str) -> None:
    shown = athena.run(sql)
    assert shown["Status"]["State"] == "SUCCEEDED", (sql, shown["Status"])


def read(cloud: InProcessCloud, prefix: str) -> list[bytes]:
    s3 = cloud.client("s3")
    listed = s3.list_objects_v2(Bucket="lake", Prefix=prefix).get("Contents", [])
    return [s3.get_object(Bucket="lake", Key=one["Key"])["Body"].read() for one in listed]


def test_orc_is_written_and_read_with_every_kind_of_column(cloud: InProcessCloud, athena: Athena):
    from pyarrow import orc

    for form in ("PARQUET", "ORC"):
        succeed(
            athena,
            f"CREATE TABLE kinds_{form} WITH (format = '{form}', external_location = 's3://lake/kinds_{form}/') "
            f"AS {ALL_KINDS}",
        )
    assert athena.rows("SELECT * FROM kinds_orc") == athena.rows("SELECT * FROM kinds_parquet")
    (file,) = read(cloud, "kinds_ORC/")
    stored = orc.ORCFile(io.BytesIO(file))
    assert (stored.compression, stored.read().num_rows) == ("ZLIB", 1)
    storage = cloud.client("glue").get_table(DatabaseName="db", Name="kinds_orc")["Table"][
        "StorageDescriptor"
    ]
    assert storage["SerdeInfo"]["SerializationLibrary"].endswith(".orc.OrcSerde")
    assert storage["OutputFormat"].endswith(".orc.OrcOutputFormat")
    # A second INSERT, into the table that a CREATE TABLE AS made.
    succeed(athena, f"INSERT INTO kinds_orc {ALL_KINDS}")
    assert athena.rows("SELECT count(*), sum(cardinality(a)) FROM kinds_orc") == [["2", "4"]]


def test_partitions_of_orc_and_what_is_empty(cloud: InProcessCloud, athena: Athena):
    values = "(VALUES (1, 'x'), (2, 'y'), (3, 'y')) AS t (a, k)"
    succeed(
        athena,
        "CREATE TABLE parts WITH (format = 'ORC', partitioned_by = ARRAY['k'], write_compression = 'SNAPPY') "
        f"AS SELECT * FROM {values}",
    )
    succeed(athena, "INSERT INTO parts VALUES (4, 'z')")
    assert athena.rows("SELECT k, sum(a) FROM parts GROUP BY k ORDER BY k") == [
        ["x", "1"], ["y", "5"], ["z", "4"],
    ]  # fmt: skip
    succeed(
        athena, f"CREATE TABLE bare WITH (format = 'ORC') AS SELECT * FROM {values} WHERE a > 9"
    )
    assert athena.rows("SELECT * FROM bare") == []
    succeed(
        athena,
        "CREATE EXTERNAL TABLE own (a int) STORED AS ORC LOCATION 's3://lake/own/' "
        "TBLPROPERTIES ('orc.compress' = 'ZSTD')",
    )
    succeed(athena, "INSERT INTO own VALUES (7)")
    assert athena.rows("SELECT a FROM own") == [["7"]]
    succeed(athena, "UNLOAD (SELECT a FROM own) TO 's3://lake/orc/' WITH (format = 'ORC')")
    assert [file[:3] for file in read(cloud, "own/") + read(cloud, "orc/")] == [b"ORC", b"ORC"]
    assert athena.reason(
        f"CREATE TABLE lost WITH (format = 'ORC', write_compression = 'GZIP') AS SELECT * FROM {values}"
    ).startswith("NOT_SUPPORTED")


def test_the_usual_compression_of_parquet_is_gzip(cloud: InProcessCloud, athena: Athena):
    from pyarrow import parquet

    more = ""
    for number, codec in enumerate(("GZIP", "SNAPPY", "UNCOMPRESSED")):
        succeed(
            athena,
            f"UNLOAD (SELECT 1 AS a) TO 's3://lake/pq{number}/' WITH (format = 'PARQUET'{more})",
        )
        (file,) = read(cloud, f"pq{number}/")
        column = parquet.ParquetFile(io.BytesIO(file)).metadata.row_group(0).column(0)
        assert column.compression == codec
        more = ", compression = '" + ("SNAPPY", "NONE", "")[number] + "'"


def test_properties_that_have_no_effect_are_refused(athena: Athena):
    for properties, words in (
        ("bucketed_by = ARRAY['a'], bucket_count = 2", "does not write buckets"),
        (
            "format = 'AVRO'",
            "does not write AVRO in Athena: it writes PARQUET, ORC, JSON, TEXTFILE",
        ),
        ("orc_bloom_filter = 'a'", "table property 'orc_bloom_filter' does not exist"),
    ):
        assert words in athena.reason(f"CREATE TABLE none WITH ({properties}) AS SELECT 1 AS a")
    assert "UNLOAD property 'header' does not exist" in athena.reason(
        "UNLOAD (SELECT 1 AS a) TO 's3://lake/none/' WITH (format = 'JSON', header = 'true')"
    )
