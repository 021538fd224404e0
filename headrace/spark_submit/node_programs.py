"""The programs of EMR's machines for steps: spark-submit in scripts, spark-sql, hadoop fs, and others.

A job's folder gets a `bin` for its PATH, with a small program under each name. It runs `headrace.spark_submit.node`,
which does what the step `spark-submit` does, with the job's own role. Programs of other applications are refused by
name: as a step before it runs, in a script when it calls them.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.spark_submit.environments import CACHE_VARIABLE, REUSE_VARIABLE
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.s3_dist_cp import parse_copy
from headrace.spark_submit.spark_home import HOME_VARIABLE

_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from headrace.spark_submit.node import main; main()"
_ROOT = Path(__file__).resolve().parents[2]
# The variables of the cloud's environment that name the Sparks of this machine.
_VARIABLES = (CACHE_VARIABLE, REUSE_VARIABLE, HOME_VARIABLE)

SHELLS = ("pyspark", "spark-shell", "spark-sql")
_PROGRAMS = ("spark-submit", *SHELLS, "hadoop", "hdfs", "s3-dist-cp")
# What PySpark's package does not carry.
_MISSING = (
    "beeline", "flink", "flink-yarn-session", "hadoop-streaming", "hbase", "hcat", "hive", "hive-script", "hudi-cli.sh",
    "mapred", "oozie", "pig", "pig-script", "presto-cli", "sparkR", "sqoop", "trino-cli", "yarn",
)  # fmt: skip
# Hadoop's commands that its client library carries, with their classes.
HADOOP_CLASSES = {
    ("hadoop", "fs"): "org.apache.hadoop.fs.FsShell",
    ("hadoop", "jar"): "org.apache.hadoop.util.RunJar",
    ("hadoop", "version"): "org.apache.hadoop.util.VersionInfo",
    ("hdfs", "dfs"): "org.apache.hadoop.fs.FsShell",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """What `headrace.spark_submit.node` needs to know of a job.

    Attributes:
        folder: the job's folder.
        label: the release label; None for the default one.
        installed, strict: as in `Sparks`.
        endpoint_url: the cloud's URL.
        cores: how many tasks a Spark job runs at a time.
        file_system: the class for `s3://`.
        buckets: each bucket's folder.
        hdfs: the folder of `hdfs:///`.
        defaults, exported, hive_site: the classifications `spark-defaults`, `spark-env/export`, `spark-hive-site`.
        logging: the classifications `spark-log4j2` and `spark-log4j`, by name.
        variables: the variables of the cloud's environment that name Sparks.
    """

    folder: str
    label: str | None
    installed: bool
    strict: bool
    endpoint_url: str
    cores: int
    file_system: str
    buckets: dict[str, str]
    hdfs: str
    defaults: dict[str, str]
    logging: dict[str, dict[str, str]]
    exported: dict[str, str]
    hive_site: dict[str, str]
    variables: dict[str, str]


def cloud_variables() -> dict[str, str]:
    """Return the variables of this process that name the Sparks of this machine."""
    return {name: os.environ[name] for name in _VARIABLES if name in os.environ}


def write_programs(spec: NodeSpec) -> Path:
    """Write a job's programs; return their folder."""
    folder = Path(spec.folder) / "bin"
    folder.mkdir(exist_ok=True)
    path = Path(spec.folder) / "node.json"
    path.write_text(json.dumps(asdict(spec)))
    command = shlex.join([sys.executable, "-I", "-c", _BOOT, str(_ROOT), str(path)])
    for name in (*_PROGRAMS, *_MISSING):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {command} {name} "$@"\n')
        program.chmod(0o755)
    return folder


def read_spec(path: Path) -> NodeSpec:
    """Return the job's description that `write_programs` has written."""
    return NodeSpec(**json.loads(path.read_text()))


def require_program(command: Sequence[str]) -> None:
    """Raise JobRefused for a command of EMR's machines that headrace does not have."""
    program, *arguments = command
    if program in _MISSING:
        raise JobRefused(f"headrace does not have {program} of EMR's machines: {_LIST}.")
    if program == "s3-dist-cp":
        parse_copy(arguments)
    elif program in ("hadoop", "hdfs") and (program, *arguments[:1]) not in HADOOP_CLASSES:
        raise JobRefused(
            f"headrace does not have {' '.join([program, *arguments[:1]])} of EMR's machines: {_LIST}."
        )


def without_cluster(arguments: Sequence[str], names: Mapping[str, object]) -> list[str]:
    """Return the arguments of one of Spark's shells without the options in `names`, which have a value."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in names:
            kept.append(word)
        elif not equals:
            next(words, None)
    return kept


_LIST = (
    "a step or its script has spark-submit, spark-example, spark-sql, spark-shell, pyspark, hadoop fs, hadoop jar, "
    "hdfs dfs, s3-dist-cp, and what is on this machine's PATH"
)
