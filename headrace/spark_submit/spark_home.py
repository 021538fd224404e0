"""Finds the installed Spark and Java on this machine, or tells in one sentence what to install."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from headrace.core.extras import Minor, format_minor, install_command, minor_of
from headrace.spark_submit.environments import list_complete
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.spark_versions import traits_of, version_at

# Names another Spark for all jobs.
HOME_VARIABLE = "HEADRACE_SPARK_HOME"
_NOW: Minor = (4, 0)
_VERSION_WITHIN_S = 30
# The folders of JDKs of Linux distributions, SDKMAN and macOS, below the root.
JAVA_FOLDERS = (
    "usr/lib/jvm/*",
    f"{Path.home().as_posix().lstrip('/')}/.sdkman/candidates/java/*",
    "Library/Java/JavaVirtualMachines/*/Contents/Home",
)


def find_spark_home() -> Path:
    """Return the home of the installed Spark: HEADRACE_SPARK_HOME, else the one in pyspark. Raises JobRefused."""
    named = os.environ.get(HOME_VARIABLE)
    if named:
        if not (Path(named) / "bin" / "spark-submit").is_file():
            raise JobRefused(f"HEADRACE_SPARK_HOME ({named}) has no bin/spark-submit.")
        return Path(named)
    # Do not import it: that takes long, and only the job needs it.
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (Path(folder) / "bin" / "spark-submit").is_file():
            return Path(folder)
    raise JobRefused(
        f"Spark is not installed: run `{install_command('spark')}` in headrace's environment, and try again."
    )


def find_newest_spark_home() -> Path:
    """Return the home of the newest Spark on this machine, which can read older ones' logs. Raises JobRefused.

    HEADRACE_SPARK_HOME has priority; else it is the installed one, or one that was created for a label.
    """
    here = () if os.environ.get(HOME_VARIABLE) else list_complete()
    try:
        installed = find_spark_home()
    except JobRefused:
        if here:
            return here[0].home
        raise
    version = version_at(installed)
    newer = (e.home for e in here if version is not None and minor_of(e.spark) > minor_of(version))
    return next(newer, installed)


def why_no_spark(*, installed: bool) -> str | None:
    """Return why this machine can run no Spark job, as one sentence; None when it can.

    Args:
        installed: whether jobs run with the installed Spark; else with the label's, which is created when needed.
    """
    try:
        if installed or os.environ.get(HOME_VARIABLE):
            find_spark_home()
        find_java()
    except JobRefused as error:
        return str(error)
    return None


def find_java() -> Path | None:
    """Return the JAVA_HOME for the newest Spark; None when `java` is on the path. Raises JobRefused."""
    return java_for(_NOW)[0]


def java_for(spark: Minor) -> tuple[Path | None, int | None]:
    """Return the JAVA_HOME for a Spark, None when `java` is on the path, and its feature release. Raises JobRefused.

    It is the one of JAVA_HOME or the path; if the Spark does not run on that, the oldest suitable one in JAVA_FOLDERS.
    """
    traits = traits_of(spark)
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    version = None if java is None else _java_version(java)
    if java is not None and (version is None or version in traits.javas):
        return (Path(home) if home else None), version
    others = [
        (number, java_home)
        for java_home in _java_homes()
        if (number := _number(java_home)) in traits.javas
    ]
    if others:
        number, place = min(others)
        return place, number
    needs = f"Spark {'' if spark == _NOW else format_minor(spark) + ' '}needs {traits.needed_java}"
    if java is None:
        where = f"under JAVA_HOME ({home})" if home else "on the path"
        raise JobRefused(f"There is no java {where}: {needs}; install a JDK or set JAVA_HOME.")
    raise JobRefused(f"{java} is Java {version}: {needs}; install a JDK or set JAVA_HOME.")


def _java_homes() -> list[Path]:
    java_folders = [home for folder in JAVA_FOLDERS for home in Path("/").glob(folder)]
    return sorted(home for home in java_folders if (home / "bin" / "java").is_file())


def _number(home: Path) -> int:
    return _java_version(str(home / "bin" / "java")) or 0


@functools.cache
def _java_version(java: str) -> int | None:
    """Return the feature release of a java; None if it is unknown."""
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
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match[1]) if match else None
