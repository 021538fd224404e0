"""Which jobs are refused when their cluster says that Spark's catalog is Glue's."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spark_submit import JobRefused
from headrace.spark_submit.arguments import parse_submission
from headrace.spark_submit.commands import NOTE, check_catalog
from headrace.spark_submit.making import read_sources

FACTORY = "com.amazonaws.glue.catalog.metastore.AWSGlueDataCatalogHiveClientFactory"
HIVE_SITE = {"hive.metastore.client.factory.class": FACTORY}


def notes(
    tmp_path: Path, source: str, *options: str, hive_site: dict[str, str] = HIVE_SITE
) -> tuple[str, ...]:
    job = tmp_path / "job.py"
    job.write_text(source)
    submission = parse_submission([*options, str(job)])
    properties = dict(o.split("=", 1) for o in options if "=" in o)
    return check_catalog(submission, properties, hive_site, read_sources(submission, properties))


@pytest.mark.parametrize(
    "source",
    [
        "spark.sql('select * from gdb.t')",
        "spark.table('gdb.t')",
        "frame.write.saveAsTable('gdb.t')",
        "SparkSession.builder.enableHiveSupport().getOrCreate()",
        "frame.writeStream.toTable('gdb.t')",
        "spark.catalog.listTables()",
    ],
)
def test_a_job_that_uses_the_catalog_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(JobRefused, match="Glue Data Catalog, which headrace's Spark does not have"):
        notes(tmp_path, source)
    assert notes(tmp_path, source, hive_site={}) == ()


def test_a_job_without_tables_runs_and_its_log_says_it(tmp_path: Path) -> None:
    source = "from pyspark.sql import SparkSession\nimport pyspark.sql.functions\nspark.read.parquet('s3://b/x')"
    assert notes(tmp_path, source) == (NOTE,)


def test_a_property_says_it_too_and_a_module_counts(tmp_path: Path) -> None:
    library = tmp_path / "library.py"
    library.write_text("def read(spark): return spark.table('gdb.t')")
    setting = f"spark.hadoop.hive.metastore.client.factory.class={FACTORY}"
    with pytest.raises(JobRefused):
        notes(
            tmp_path, "import library", "--conf", setting, "--py-files", str(library), hive_site={}
        )


def test_what_a_jar_uses_cannot_be_seen(tmp_path: Path) -> None:
    with pytest.raises(JobRefused):
        check_catalog(parse_submission(["--class", "X", f"{tmp_path}/a.jar"]), {}, HIVE_SITE, [])
