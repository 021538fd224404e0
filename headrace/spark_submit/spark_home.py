"""Finds Spark and Java on this machine, or says in one sentence what to install."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from headrace.spark_submit.errors import JobRefused

OLDEST_JAVA = 17
_VERSION_WITHIN_S = 30


def find_spark_home() -> Path:
    """Return the home of Spark: HEADRACE_SPARK_HOME, else what pyspark carries. Raises JobRefused."""
    named = os.environ.get("HEADRACE_SPARK_HOME")
    if named:
        if not (Path(named) / "bin" / "spark-submit").is_file():
            raise JobRefused(f"HEADRACE_SPARK_HOME ({named}) has no bin/spark-submit.")
        return Path(named)
    # Found without being imported: that takes long, and only the job needs it.
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / "bin" / "spark-submit").is_file():
            return Path(place)
    raise JobRefused(
        "Spark is not installed: run `pip install 'headrace[spark]'` in headrace's environment, and try again."
    )


def why_no_spark() -> str | None:
    """Return why no Spark job can be run here, as one sentence; None when it can."""
    try:
        find_spark_home()
        find_java()
    except JobRefused as error:
        return str(error)
    return None


def find_java() -> Path | None:
    """Return JAVA_HOME if it is set; None says that `java` is on the path. Raises JobRefused."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        where = f"under JAVA_HOME ({home})" if home else "on the path"
        raise JobRefused(
            f"There is no java {where}: Spark needs Java {OLDEST_JAVA} or newer; install a JDK or set JAVA_HOME."
        )
    version = _java_version(java)
    if version is not None and version < OLDEST_JAVA:
        raise JobRefused(
            f"{java} is Java {version}: Spark needs Java {OLDEST_JAVA} or newer; install a JDK or set JAVA_HOME."
        )
    return Path(home) if home else None


@functools.cache
def _java_version(java: str) -> int | None:
    """Return the feature release of a java, or None when it does not say."""
    try:
        done = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_VERSION_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else None
