"""Runs a job on the folder of a `Feed` in a process that a test may kill: `drive.py JOB FOLDER WATERMARK`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark_jobs.feed import arguments, stream


def main(name: str, folder: Path, watermark: str) -> None:
    job = importlib.import_module(f"spark_jobs.{name}").JOB
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    argv = arguments(folder, "--watermark", watermark)
    job.run(spark, job.parse(argv), stream(spark, folder / "input"))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
