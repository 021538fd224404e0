"""Chooses the Spark for a job: its release label's, in an environment like EMR's, or the installed one.

`Sparks.of(label)` returns the Spark's place, Python and Java, what must be created first, and how it differs from
EMR's. It creates nothing: `making` does that in the job's own process, where a user can cancel it.

Describes how a job's Spark, jars, Python and Java differ from EMR's.

Finds the installed Spark and Java on this machine, or tells in one sentence what to install.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.config import home_folder
from headrace.core.extras import Minor, format_minor, install_command, minor_of
from headrace.spark_submit import JobRefused
from headrace.spark_submit.emr_releases import (
    DEFAULT_LABEL,
    Release,
    SparkTraits,
    UnknownRelease,
    release_of,
    traits_of,
)
from headrace.spark_submit.environments import (
    Environment,
    find_cached,
    link_if_possible,
    list_complete,
    python_for,
    version_at,
)


def differences(release: Release, environment: Environment, java: int | None) -> list[str]:
    """Return the differences between a job's run here and on EMR, one line each."""
    notes = facts_of(release, environment) if environment.whole else []
    if "-amzn-" in release.spark:
        notes.append(f"EMR's Spark is {release.spark}: Amazon's patches are not in this one")
    python = format_minor(environment.python)
    if python == release.python:
        pass
    elif python in release.pythons:
        notes.append(
            f"Python is {python}, which EMR's image also has; PySpark's default there is {release.python}"
        )
    else:
        notes.append(
            f"Python is {python}: this machine has no {' or '.join(release.pythons)}, which EMR's image has"
        )
    if java is not None and java != release.java:
        notes.append(f"Java is {java}; EMR's is {release.java}")
    notes.append(
        "the interpreter has NumPy, as EMR's image is assumed to have; a job must bring all other third-party packages"
    )
    return notes


def facts_of(release: Release, environment: Environment) -> list[str]:
    """Return how the Spark of a complete environment differs from EMR's, judged by its jars; one line each."""
    notes: list[str] = []
    version = version_at(environment.home)
    if version != release.spark_version:
        notes.append(f"pip has no Spark {release.spark_version}: this is {version}")
    for name, jar, on_emr in (
        ("Hadoop", "hadoop-client-api", release.hadoop),
        ("Scala", "scala-library", release.scala),
    ):
        names = [path.name for path in environment.home.glob(f"jars/{jar}-*.jar")]
        here = names[0].removeprefix(f"{jar}-").removesuffix(".jar") if names else None
        if here is not None and on_emr and here != on_emr:
            notes.append(f"{name} is {here}; EMR's is {on_emr}")
    return notes


# The note on release labels in the fidelity report.
FIDELITY_NOTE = (
    "Spark jobs run with pip's PySpark of the label's version: without Amazon's patches, with that PySpark's Hadoop "
    "and Scala, on a Python and a Java of this machine; each job's log says what differs. Other applications: none."
)
# For a Spark with an unknown version.
_NEWEST: Minor = (4, 3)
_IMAGE_PYTHON = re.compile(r"(?:/usr/bin/|/usr/local/bin/)?python(?:3(?:\.(\d+))?)?")
# Settings with an interpreter as their value.
_PYTHON_SETTINGS = (
    "spark.pyspark.python",
    "spark.pyspark.driver.python",
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpark:
    """The Spark for one job.

    Attributes:
        home: SPARK_HOME.
        traits: its version's traits.
        python: the interpreter.
        java_home: JAVA_HOME; None when `java` is on the path.
        java: Java's feature release; None if unknown.
        notes: lines for the job's log: its origin, and how it differs from EMR's.
        release: the release that it belongs to; None for the installed one.
        environment: the environment of the release's Spark, existing or not; None for the installed one.
        connector: whether the replacement of EMR's connector is on the job's path.
    """

    home: Path
    traits: SparkTraits
    python: Path
    java_home: Path | None
    java: int | None
    notes: tuple[str, ...]
    release: Release | None = None
    environment: Environment | None = None
    connector: bool = False

    def interpreter_for(self, value: str) -> str | None:
        """Return the local interpreter for an interpreter of EMR's image; None when `value` is not one.

        For `/usr/bin/python3.11`, the image's Python 3.11, it is the one of an environment with Python 3.11. Raises
        JobRefused when the image has no such Python, or the job runs with another one.
        """
        match = _IMAGE_PYTHON.fullmatch(value)
        if match is None or self.release is None:
            return None
        if match[1] is None or (version := (3, int(match[1]))) == _python_of(self.environment):
            return str(self.python)
        if format_minor(version) not in self.release.pythons:
            raise JobRefused(
                f'Cannot run program "{value}": error=2, No such file or directory (the image of '
                f"{self.release.label} has Python {', '.join(self.release.pythons)})"
            )
        raise JobRefused(
            f"{value}: headrace runs {self.release.label} "
            f"with Python {format_minor(_python_of(self.environment))} here."
        )


@dataclass(frozen=True, slots=True)
class Sparks:
    """Chooses the Spark of each job. Thread-safe.

    Attributes:
        installed: whether every job runs with the Spark in headrace's own environment.
        strict: whether to refuse a job that would run with another minor version than its label's.
    """

    installed: bool = False
    strict: bool = False

    @property
    def takes_installed(self) -> bool:
        """Whether every job runs with the installed Spark, by option or because HEADRACE_SPARK_HOME is set."""
        return self.installed or bool(os.environ.get(HOME_VARIABLE))

    def release_of(self, label: str | None) -> Release | None:
        """Return the release whose Spark runs a label's jobs; None for the installed Spark or an unknown label."""
        if self.takes_installed:
            return None
        try:
            return release_of(label or DEFAULT_LABEL)
        except UnknownRelease:
            return None

    def programs_of(self, label: str | None) -> Path | None:
        """Return the folder with the `python3` for a label's programs; None if they use this machine's."""
        release = self.release_of(label)
        if release is None:
            return None
        try:
            _, python = python_for(release.spark_version, release.image_pythons)
        except JobRefused:
            return None
        environment = find_cached(release.spark_version, python)
        return environment.interpreter.parent if environment.whole else None

    def of(self, label: str | None, settings: Mapping[str, str] | None = None) -> JobSpark:
        """Return the Spark for a job of a label. Raises JobRefused with one sentence.

        Args:
            label: the release label; None for `DEFAULT_LABEL`.
            settings: the job's settings; those with an interpreter select one of the image's Pythons.
        """
        try:
            release = release_of(label or DEFAULT_LABEL)
        except UnknownRelease as error:
            # Clusters that an older headrace created may have any label.
            raise JobRefused(f"The label's Spark is not known: {error}.") from None
        if self.takes_installed:
            return self._find_installed(release, label)
        return _of_release(release, label, _list_pythons(release, settings or {}))

    def _find_installed(self, release: Release, label: str | None) -> JobSpark:
        home = find_spark_home()
        version = version_at(home)
        minor = _NEWEST if version is None else minor_of(version)
        name = f"Spark {version or 'of an unknown version'} in {home}"
        if label is not None and self.strict and (version is None or minor != release.spark_minor):
            raise JobRefused(
                f"{name} is not the Spark {release.spark} of {label}, and --strict refuses to run one for the other: "
                "start the cloud without --spark installed, or the cluster with another release label."
            )
        java_home, java = java_for(minor)
        note = (
            f"this job runs with {name} and headrace's own Python packages, whatever the label says; "
            f"{release.label} has Spark {release.spark}"
        )
        return JobSpark(
            home=home, traits=traits_of(minor), python=Path(sys.executable), java_home=java_home, java=java,
            notes=(note,),
        )  # fmt: skip


def is_python_setting(name: str) -> bool:
    """Return whether a property or a variable sets a job's interpreter."""
    return name in _PYTHON_SETTINGS


def python_settings(properties: Mapping[str, str], exported: Mapping[str, str]) -> dict[str, str]:
    """Return a job's settings with an interpreter: Spark properties, and variables that it sets."""
    settings_found = {name: value for name, value in exported.items() if is_python_setting(name)}
    for name, value in properties.items():
        # `spark.executorEnv.PYSPARK_PYTHON` sets a variable.
        for named in (name, name.rpartition(".")[2]):
            if is_python_setting(named):
                settings_found[named] = value
    return settings_found


def _list_pythons(release: Release, settings: Mapping[str, str]) -> tuple[Minor, ...]:
    """Return the Pythons of the image; first the one that the job sets, else the default."""
    image = release.image_pythons
    for key in _PYTHON_SETTINGS:
        match = _IMAGE_PYTHON.fullmatch(settings.get(key, ""))
        named = (3, int(match[1])) if match and match[1] else None
        if named in image:
            return (named, *(p for p in image if p != named))
    return image


def _of_release(release: Release, label: str | None, minors: Sequence[Minor]) -> JobSpark:
    version = release.spark_version
    interpreter, python = python_for(version, minors)
    environment = find_cached(version, python)
    if not environment.whole:
        link_if_possible(environment, interpreter)
    java_home, java = java_for(release.spark_minor)
    notes = [f"Spark {version} of {release.label}, from pip, in {environment.folder}"]
    if label is None:
        notes.append(f"the cluster has no ReleaseLabel: {release.label} is taken")
    notes += differences(release, environment, java)
    return JobSpark(
        home=environment.home, traits=traits_of(release.spark_minor),
        python=environment.interpreter, java_home=java_home, java=java, notes=tuple(notes),
        release=release, environment=environment,
    )  # fmt: skip


def _python_of(environment: Environment | None) -> Minor:
    assert environment is not None
    return environment.python


# Names another Spark for all jobs.
HOME_VARIABLE = "HEADRACE_SPARK_HOME"
_NOW: Minor = (4, 0)
_VERSION_WITHIN_S = 30
# The folders of JDKs of Linux distributions, SDKMAN and macOS, below the root.
JAVA_FOLDERS = (
    "usr/lib/jvm/*",
    f"{home_folder().as_posix().lstrip('/')}/.sdkman/candidates/java/*",
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
