"""COPY into a cluster's tables, by the Data API and by Firehose's loads, which happen once."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.ports.warehouses import Load, Login, WarehouseError
from tests.api.redshift.conftest import Run
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

Rows = Callable[[str], list[list[Any]]]
KEYS = "access_key_id 'a' secret_access_key 'b'"


def put(cloud: InProcessCloud, key: str, body: bytes) -> None:
    cloud.client("s3").put_object(Bucket="lake", Key=key, Body=body)


def test_rows_are_loaded_and_the_rest_is_in_stl_load_errors(
    cloud: InProcessCloud, run: Run, rows: Rows
):
    run(
        "create table loaded (id bigint identity(1, 1), carrier varchar(3) not null, delay int, x super)"
    )
    body = b'{"carrier":"AA","delay":5,"x":{"a":1.50}}{"carrier":"LONG"}\n{"carrier":"BB","delay":"soon"}{"delay":1}'
    put(cloud, "one/a.gz", gzip.compress(body))
    failed = run(f"copy loaded from 's3://lake/one/' {KEYS} json 'auto' gzip")
    assert failed["Error"] == (
        "ERROR: Load into table 'loaded' failed. Check 'stl_load_errors' system table for details."
    )
    assert rows("select count(*) from loaded") == [[0]]
    assert rows(
        "select trim(err_reason), trim(colname), line_number, trim(filename) from stl_load_errors"
    ) == [["String length exceeds DDL length", "carrier", 1, "s3://lake/one/a.gz"]]
    done = run(f"copy loaded from 's3://lake/one/' {KEYS} json 'auto' gzip maxerror 10")
    assert (done["Status"], done["ResultRows"]) == ("FINISHED", 1)
    assert rows("select carrier, delay, x from loaded") == [["AA", 5, '{"a":1.50}']]
    codes = rows("select distinct err_code from stl_load_errors order by 1")
    assert codes == [[1204], [1207], [1213]]


def test_csv_with_a_list_of_columns_and_a_manifest(cloud: InProcessCloud, run: Run, rows: Rows):
    run("create table listed (a int default 7, b varchar, at timestamp)")
    put(cloud, "two/x.csv", b'h\n"it, is",2026-01-02T03:04:05Z\n')
    put(
        cloud,
        "two/m",
        b'{"entries": [{"url": "s3://lake/two/x.csv", "mandatory": true}, {"url": "s3://lake/no"}]}',
    )
    options = "manifest csv ignoreheader 1 timeformat 'auto'"
    assert (
        run(f"copy listed (b, at) from 's3://lake/two/m' {KEYS} {options}")["Status"] == "FINISHED"
    )
    assert rows("select * from listed") == [[7, "it, is", "2026-01-02 03:04:05"]]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("copy nowhere from 's3://lake/one/' {keys}", "Cannot COPY into nonexistent table nowhere"),
        (
            "copy strict (z) from 's3://lake/one/' {keys}",
            'column "z" of relation "strict" does not exist',
        ),
        ("copy strict (b) from 's3://lake/one/' {keys}", "NOT NULL, has no default"),
        (
            "copy strict from 's3://lake/none' {keys}",
            "The specified S3 prefix 'none' does not exist",
        ),
        ("copy strict from 's3://lake/none' {keys} manifest", "NoSuchKey"),
        ("copy strict from 's3://no-bucket/x' {keys} manifest", "NoSuchBucket"),
        ("copy strict from 's3://lake/one/' {keys} csv gzip bzip2", "not compatible"),
        (
            "copy strict from 's3://lake/one/' iam_role 'arn:aws:iam::1:role/r'",
            "not authorized to assume IAM Role",
        ),
        ("copy strict from 's3://lake/one/'", "needs credentials"),
    ],
)
def test_a_copy_that_cannot_be(cloud: InProcessCloud, run: Run, statement: str, said: str):
    put(cloud, "one/a.gz", b"x")
    run("create table if not exists strict (a int not null, b int)")
    described = run(statement.format(keys=KEYS))
    assert described["Status"] == "FAILED"
    assert said in described["Error"]


def test_a_load_of_the_same_name_happens_once(
    cloud: InProcessCloud, run: Run, rows: Rows, database: str
):
    run("create table once (n int)")
    put(cloud, "three/n", b'{"n":1}{"n":2}')
    (cluster,) = cloud.client("redshift").describe_clusters()["Clusters"]
    where = cluster["Endpoint"]
    load = Load(
        jdbc_url=f"jdbc:redshift://{where['Address']}:{where['Port']}/{database}",
        login=Login("admin", "Secret123"),
        sql="COPY once FROM 's3://lake/three/n' json 'auto'",
        role="arn:aws:iam::000000000000:role/r",
        once=f"once in {database}",
        account=ACCOUNT,
        region=REGION,
    )
    warehouses = cloud.cloud.warehouses
    assert [warehouses.load(load), warehouses.load(load)] == [2, 2]
    assert rows("select n from once order by 1") == [[1], [2]]


def test_a_load_by_the_address_that_aws_gives_clusters(
    cloud: InProcessCloud, run: Run, rows: Rows, database: str
):
    run("create table named (n int)")
    put(cloud, "three/n", b'{"n":1}{"n":2}')
    url = f"jdbc:redshift://flights.abc.{REGION}.redshift.amazonaws.com:5439/{database}"
    login = Login("admin", "Secret123")
    sql = "COPY named FROM 's3://lake/three/n' json 'auto'"
    load = Load(
        url, login, sql, "arn:aws:iam::000000000000:role/r", f"named {database}", ACCOUNT, REGION
    )
    assert cloud.cloud.warehouses.load(load) == 2
    refused = Load(url, Login("admin", "Wrong1234"), sql, "", "other", ACCOUNT, REGION)
    with pytest.raises(WarehouseError) as error:
        cloud.cloud.warehouses.load(refused)
    assert error.value.kind == "AuthenticationFailed"
    denied = Load(url, login, sql, "r", "denied", ACCOUNT, REGION, may_read=lambda *_: "no")
    with pytest.raises(WarehouseError) as error:
        cloud.cloud.warehouses.load(denied)
    assert error.value.kind == "S3BucketAccessDenied"
