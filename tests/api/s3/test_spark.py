"""A real Spark on a bucket's files, through `s3://` without a jar."""

from __future__ import annotations

import io
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from headrace.core.extras import minor_of
from headrace.spark_submit.emr_releases import traits_of
from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab

pytestmark = pytest.mark.spark

# Spark in a process of its own: its session, and what it warns of, are nobody else's.
JOB = """
import sys
from pyspark.sql import SparkSession
bucket, folder, manager = sys.argv[1:]
settings = {
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
    "spark.hadoop.fs.viewfs.overload.scheme.target.file.impl":
        "org.apache.hadoop.fs.RawLocalFileSystem",
    f"spark.hadoop.fs.viewfs.mounttable.{bucket}.linkFallback": "file://" + folder,
    "spark.sql.streaming.checkpointFileManagerClass": manager,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
flights = spark.read.parquet(f"s3://{bucket}/in/")
flights.write.mode("overwrite").partitionBy("month").parquet(f"s3://{bucket}/out/")
query = (
    spark.readStream.schema("x int").json(f"s3://{bucket}/stream-in/")
    .writeStream.format("json")
    .option("checkpointLocation", f"s3://{bucket}/checkpoint/")
    .trigger(availableNow=True)
    .start(f"s3://{bucket}/stream-out/")
)
query.awaitTermination()
spark.stop()
"""


@pytest.mark.slow
def test_spark_reads_objects_and_writes_objects(lab: S3Lab, s3: Any, tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyspark")
    for month in (1, 2):
        file = io.BytesIO()
        parquet.write_table(arrow.table({"x": list(range(month * 10))}), file)
        s3.put_object(Bucket=BUCKET, Key=f"in/month={month}/a b.parquet", Body=file.getvalue())
    s3.put_object(Bucket=BUCKET, Key="stream-in/a.json", Body=b'{"x":1}\n{"x":2}\n')
    script = tmp_path / "job.py"
    script.write_text(JOB)
    manager = traits_of(minor_of(version("pyspark"))).checkpoint_manager
    done = subprocess.run(
        [sys.executable, str(script), BUCKET, str(lab.folder(BUCKET)), manager],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]

    def objects(prefix: str) -> dict[str, bytes]:
        listed = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return {
            item["Key"]: s3.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read()
            for item in listed
        }

    written = objects("out/")
    assert written.pop("out/_SUCCESS") == b""
    rows = {
        key.split("/")[1]: parquet.read_table(io.BytesIO(data)).num_rows
        for key, data in written.items()
    }
    assert rows == {"month=1": 10, "month=2": 20}
    assert "checkpoint/commits/0" in objects("checkpoint/")
    streamed = [data for key, data in objects("stream-out/").items() if key.endswith(".json")]
    assert b"".join(streamed) == b'{"x":1}\n{"x":2}\n'
    everything = [*objects(""), *objects("checkpoint/")]
    assert [key for key in everything if key.endswith(".crc")] == []
