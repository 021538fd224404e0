"""The programs of EMR's machines for steps: spark-submit in scripts, spark-sql, hadoop fs, and others.

A job's folder gets a `bin` for its PATH, with a small program under each name. It runs `headrace.spark_submit.node`,
which does what the step `spark-submit` does, with the job's own role. Programs of other applications are refused by
name: as a step before it runs, in a script when it calls them.

`s3-dist-cp` of EMR's machines, in its plain form: copies the files below one folder to another.

Documented (UsingEMR_s3distcp.html): `--src`, `--dest`, `--srcPattern` (a regular expression for the whole URI) and
`--deleteOnSuccess`. Its other options are refused by name.

The Pythons into which a cluster's bootstrap actions install packages, for the steps of that cluster only. On EMR, a
bootstrap action installs packages for PySpark with `python3 -m pip install` or `sudo pip3 install`. Here a cluster's
folder has a `bin` with those Pythons of EMR's image that this machine has, under their names on EMR. At its first call
each creates a virtual environment that includes the image's packages. The `sudo` there only runs its command as the
same user: it changes nothing on the machine, and no job runs as root.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from headrace.core.extras import format_minor, minor_of
from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern
from headrace.spark_submit import JobRefused
from headrace.spark_submit.emr_releases import Release
from headrace.spark_submit.environments import (
    CACHE_VARIABLE,
    REUSE_VARIABLE,
    find_cached,
    find_python,
)
from headrace.spark_submit.sparks import HOME_VARIABLE, JobSpark

_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from headrace.spark_submit.node import main; main()"
_ROOT = Path(__file__).resolve().parents[2]
# The variables of the cloud's environment that name the Sparks of this machine.
_VARIABLES = (CACHE_VARIABLE, REUSE_VARIABLE, HOME_VARIABLE)

SHELLS = ("pyspark", "spark-shell", "spark-sql")
# Sends the states of jobs to EMR's console, for "Enable debugging". Here the cloud knows them: there is nothing to do.
STATE_PUSHER = "state-pusher-script"
_PROGRAMS = ("spark-submit", *SHELLS, "hadoop", "hdfs", "s3-dist-cp", STATE_PUSHER)
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


def script_program(script: str) -> str | None:
    """Return the program that a script of EMR's own bucket stands for (`s3://REGION.elasticmapreduce/libs/...`)."""
    found = _OWN_SCRIPT.fullmatch(script)
    if found is None:
        return None
    return STATE_PUSHER if found[1] == "state-pusher" else found[2]


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


_VALUES = ("--src", "--dest", "--srcPattern")
_DELETE = "--deleteOnSuccess"
_OWN_SCRIPT = re.compile(r"s3://(?:[a-z0-9-]+\.)?elasticmapreduce/libs/([^/]+)/(?:.*/)?([^/]+)")
_S3 = re.compile(r"s3[an]?://([^/]+)/?(.*)")
_HDFS = re.compile(r"(?:hdfs:(?://[^/]*)?)?(/.*)")


@dataclass(frozen=True, slots=True)
class Copy:
    """A parsed command line."""

    source: str
    target: str
    pattern: str | None
    deletes: bool


def parse_copy(arguments: Sequence[str]) -> Copy:
    """Parse the arguments of s3-dist-cp. Raises JobRefused."""
    values: dict[str, str] = {}
    deletes = False
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in _VALUES:
            argument = value if equals else next(words, None)
            if argument is None:
                raise JobRefused(f"s3-dist-cp's option {name} lacks its value.")
            values[name] = argument
        elif name == _DELETE:
            deletes = True
        else:
            raise JobRefused(f"headrace's s3-dist-cp does not have {name}.")
    for name in ("--src", "--dest"):
        if name not in values:
            raise JobRefused(f"s3-dist-cp needs {name}.")
        if not (_S3.fullmatch(values[name]) or _HDFS.fullmatch(values[name])):
            raise JobRefused(
                f"headrace's s3-dist-cp copies s3:// and hdfs:///, not {values[name]}."
            )
    return Copy(values["--src"], values["--dest"], values.get("--srcPattern"), deletes)


def _matching(text: str, names: list[str], source: _Place) -> list[str]:
    """Return the names whose URI a Java pattern matches whole. Raises JobRefused."""
    try:
        pattern = java_pattern(text)
        return [name for name in names if pattern.matches(source.uri(name))]
    except (PatternRefused, MatchTooLong) as error:
        raise JobRefused(f"s3-dist-cp's --srcPattern {text}: {error}") from error


def copy_files(copy: Copy, s3: Any, hdfs: Path) -> int:
    """Copy the files, and print how many; return how many. Raises JobRefused, and botocore's errors.

    Args:
        copy: what to copy.
        s3: a client with the job's role.
        hdfs: the folder of `hdfs:///`.
    """
    source, target = _Place(copy.source, s3, hdfs), _Place(copy.target, s3, hdfs)
    names = source.names()
    if copy.pattern is not None:
        # Of the whole URI, as Java's Matcher.matches.
        names = _matching(copy.pattern, names, source)
    elif not names:
        raise JobRefused(f"Input path does not exist: {copy.source}")
    for name in names:
        target.put(name, source)
    if copy.deletes:
        for name in names:
            source.delete(name)
    sys.stderr.write(f"s3-dist-cp: copied {len(names)} files from {copy.source} to {copy.target}\n")
    return len(names)


class _Place:
    """A folder in S3 or HDFS; `name` is a file's path below it, empty for the folder's own path as a file."""

    def __init__(self, uri: str, s3: Any, hdfs: Path) -> None:
        self._uri = uri.rstrip("/")
        self.s3 = s3
        match = _S3.fullmatch(uri)
        self.bucket, self.prefix = (match[1], match[2].strip("/")) if match else ("", "")
        path = _HDFS.fullmatch(uri)
        self.folder = hdfs / path[1].strip("/") if path else None

    def uri(self, name: str) -> str:
        return f"{self._uri}/{name}" if name else self._uri

    def key(self, name: str) -> str:
        return "/".join(part for part in (self.prefix, name) if part)

    def path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / name if name else self.folder

    def names(self) -> list[str]:
        if self.folder is not None:
            if self.folder.is_file():
                return [""]
            return sorted(
                path.relative_to(self.folder).as_posix()
                for path in self.folder.rglob("*")
                if path.is_file()
            )
        names: list[str] = []
        for page in self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=self.prefix
        ):
            for content in page.get("Contents", []):
                key = str(content["Key"])
                name = key.removeprefix(self.prefix).removeprefix("/")
                is_below = (
                    key == self.prefix or not self.prefix or key.startswith(f"{self.prefix}/")
                )
                if is_below and not key.endswith("/"):
                    names.append(name)
        return names

    def put(self, name: str, source: _Place) -> None:
        # A single file is copied below the target folder.
        below = name or source.uri(name).rpartition("/")[2]
        if self.folder is None and source.folder is None:
            self.s3.copy_object(
                Bucket=self.bucket,
                Key=self.key(below),
                CopySource={"Bucket": source.bucket, "Key": source.key(name)},
            )
        elif self.folder is None:
            self.s3.upload_file(str(source.path(name)), self.bucket, self.key(below))
        else:
            path = self.path(below)
            path.parent.mkdir(parents=True, exist_ok=True)
            if source.folder is None:
                self.s3.download_file(source.bucket, source.key(name), str(path))
            else:
                shutil.copyfile(source.path(name), path)

    def delete(self, name: str) -> None:
        if self.folder is None:
            self.s3.delete_object(Bucket=self.bucket, Key=self.key(name))
        else:
            self.path(name).unlink()


_FOLDER = "python"
_SUDO = """\
#!/bin/sh
# Options of sudo, and variables before the command; the command runs as the same user.
while [ $# -gt 0 ]; do
  case "$1" in
    -u|-g|-h|-p|-C|-r|-t|-T|-U|-D|-R) shift 2 ;;
    --) shift; break ;;
    -*) shift ;;
    *=*) export "$1"; shift ;;
    *) break ;;
  esac
done
[ $# -eq 0 ] || exec "$@"
"""
# Created under another name and then renamed, so that a crash leaves no partial one; of two at once, one is deleted.
_PYTHON = """\
#!/bin/sh
made={made}
if [ ! -x "$made/bin/python" ]; then
  part="$made.part.$$"
  {base} -m venv "$part" && echo {image} > "$part/lib/python{version}/site-packages/emr_image.pth" || exit
  if [ -e "$made" ]; then rm -rf "$part"; else mv "$part" "$made"; fi
fi
exec "$made/bin/python"{module} "$@"
"""


def make_cluster_pythons(release: Release, cluster: Path) -> Path:
    """Create the programs with which a cluster's bootstrap actions call its Pythons; return their folder."""
    folder = cluster / _FOLDER
    if not folder.is_dir():
        part = folder.with_name(f".{_FOLDER}.part")
        shutil.rmtree(part, ignore_errors=True)
        (part / "bin").mkdir(parents=True)
        for python in release.pythons:
            _offer(release, python, part / "bin", folder)
        _program(part / "bin" / "sudo", _SUDO)
        part.rename(folder)
    return folder / "bin"


def programs_in(cluster: Path) -> Path | None:
    """Return the folder of those programs; None if the cluster has none."""
    programs = cluster / _FOLDER / "bin"
    return programs if programs.is_dir() else None


def with_cluster_python(spark: JobSpark, cluster: Path) -> JobSpark:
    """Return `spark` with the cluster's own Python, if it has one."""
    if spark.environment is None:
        return spark
    version = format_minor(spark.environment.python)
    python = cluster / _FOLDER / version / "bin" / "python"
    if not python.exists():
        return spark
    note = f"the job also has the packages that the cluster's bootstrap actions installed for Python {version}"
    return replace(spark, python=python, notes=(*spark.notes, note))


def _offer(release: Release, version: str, programs: Path, folder: Path) -> None:
    """Write the programs of one Python, if this machine has it."""
    base = find_python(minor_of(version))
    if base is None:
        return
    image = find_cached(release.spark_version, minor_of(version)).packages
    names = [version]
    if version == release.system_python:
        names += ["3", ""]
    for program, module in (("python", ""), ("pip", " -m pip")):
        text = _PYTHON.format(
            made=shlex.quote(str(folder / version)),
            base=shlex.quote(str(base)),
            image=shlex.quote(str(image)),
            version=version,
            module=module,
        )
        for name in names:
            _program(programs / f"{program}{name}", text)


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
