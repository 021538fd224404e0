"""s3-dist-cp between buckets and a cluster's HDFS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.spark_submit import JobRefused
from headrace.spark_submit.node_programs import copy_files, parse_copy
from tests.api.emr.conftest import Lab


@pytest.fixture
def s3(lab: Lab) -> Any:
    client = lab.s3
    client.create_bucket(Bucket="bkt")
    for key in ("logs/1.gz", "logs/deep/2.gz", "logs/3.txt", "logsother/4.gz"):
        client.put_object(Bucket="bkt", Key=key, Body=key.encode())
    return client


def keys(s3: Any) -> set[str]:
    return {found["Key"] for found in s3.list_objects_v2(Bucket="bkt").get("Contents", [])}


def test_files_are_copied_between_buckets_and_hdfs(s3: Any, tmp_path: Path) -> None:
    def copy(*arguments: str) -> int:
        return copy_files(parse_copy(arguments), s3, tmp_path)

    assert copy("--src", "s3://bkt/logs", "--dest", "hdfs:///in/", "--srcPattern", r".*\.gz") == 2
    assert (tmp_path / "in/deep/2.gz").read_text() == "logs/deep/2.gz"
    assert not (tmp_path / "in/3.txt").exists()
    assert copy("--src", "/in", "--dest", "s3n://bkt/out", "--deleteOnSuccess") == 2
    assert {"out/1.gz", "out/deep/2.gz"} <= keys(s3)
    assert not (tmp_path / "in/1.gz").exists()
    assert copy("--src=s3://bkt/out/", "--dest=s3://bkt/moved/", "--deleteOnSuccess") == 2
    assert {"moved/1.gz", "moved/deep/2.gz"} <= keys(s3)
    assert not any(key.startswith("out/") for key in keys(s3))
    with pytest.raises(JobRefused, match="Input path does not exist: s3://bkt/none/"):
        copy("--src", "s3://bkt/none/", "--dest", "hdfs:///in/")
