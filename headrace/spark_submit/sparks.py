"""Which Spark a job is run with: that of its release label in an environment like EMR's, or the installed one.

`Sparks.of(label)` says where that Spark is, with which Python and Java, what must be made first, and in which ways it
is not EMR's. Nothing is made here: `making` does that in the job's own process, where a user can cancel it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.emr_releases import DEFAULT_LABEL, Release, UnknownRelease, release_of
from headrace.core.minor_versions import Minor, dotted, minor_of
from headrace.spark_submit.emr_differences import differences
from headrace.spark_submit.environments import (
    Environment,
    cached,
    link_if_possible,
    python_for,
)
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.spark_home import find_spark_home, java_for
from headrace.spark_submit.spark_versions import SparkTraits, traits_of, version_at

# What the fidelity report says of release labels.
FIDELITY_NOTE = (
    "Spark jobs run with pip's PySpark of the label's version: without Amazon's patches, with that PySpark's Hadoop "
    "and Scala, on a Python and a Java of this machine; each job's log says what differs. Other applications: none."
)
# Of a Spark whose version nobody can tell.
_NEWEST: Minor = (4, 3)
_IMAGE_PYTHON = re.compile(r"(?:/usr/bin/|/usr/local/bin/)?python(?:3(?:\.(\d+))?)?")
# Settings whose value is an interpreter.
_PYTHON_SETTINGS = (
    "spark.pyspark.python",
    "spark.pyspark.driver.python",
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpark:
    """What one job is run with.

    Attributes:
        home: SPARK_HOME.
        traits: what is known of its version.
        python: the interpreter.
        java_home: JAVA_HOME; None when `java` is on the path.
        java: Java's feature release; None when it does not say.
        notes: what the job's log says of it: where it comes from, what differs from EMR.
        release: whose Spark it is; None when it is the installed one.
        environment: where the Spark of the release is, made or not; None when it is the installed one.
        connector: whether the stand-in for EMR's connector is on the job's path.
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
        """Return the interpreter here that stands for one of EMR's image; None when `value` names none of those.

        `/usr/bin/python3.11` is the image's Python 3.11: here, that of an environment of that Python. Raises JobRefused
        when the image has no such Python, or the job is run with another.
        """
        found = _IMAGE_PYTHON.fullmatch(value)
        if found is None or self.release is None:
            return None
        if found[1] is None or (version := (3, int(found[1]))) == _python_of(self.environment):
            return str(self.python)
        if dotted(version) not in self.release.pythons:
            raise JobRefused(
                f'Cannot run program "{value}": error=2, No such file or directory (the image of '
                f"{self.release.label} has Python {', '.join(self.release.pythons)})"
            )
        raise JobRefused(
            f"{value}: headrace runs {self.release.label} with Python {dotted(_python_of(self.environment))} here."
        )


@dataclass(frozen=True, slots=True)
class Sparks:
    """How this cloud chooses Sparks. Thread-safe.

    Attributes:
        installed: whether every job runs with the Spark that is installed beside headrace.
        strict: whether a job is refused that would run with another minor version than its label's.
    """

    installed: bool = False
    strict: bool = False

    @property
    def takes_installed(self) -> bool:
        """Whether every job runs with the installed Spark: it was said, or HEADRACE_SPARK_HOME names one."""
        return self.installed or bool(os.environ.get("HEADRACE_SPARK_HOME"))

    def release_of(self, label: str | None) -> Release | None:
        """Return the release whose Spark jobs of a label run with; None when that is the installed one, or unknown."""
        if self.takes_installed:
            return None
        try:
            return release_of(label or DEFAULT_LABEL)
        except UnknownRelease:
            return None

    def programs_of(self, label: str | None) -> Path | None:
        """Return the folder with the `python3` that a label's programs find; None where it is that of this machine."""
        release = self.release_of(label)
        if release is None:
            return None
        try:
            _, python = python_for(release.spark_version, image_pythons(release))
        except JobRefused:
            return None
        environment = cached(release.spark_version, python)
        return environment.interpreter.parent if environment.whole else None

    def of(self, label: str | None, settings: Mapping[str, str] | None = None) -> JobSpark:
        """Return what a job of a label is run with. Raises JobRefused in one sentence.

        Args:
            label: the release's; None takes `DEFAULT_LABEL`.
            settings: the job's, of which those that name an interpreter choose among the Pythons of the image.
        """
        try:
            release = release_of(label or DEFAULT_LABEL)
        except UnknownRelease as error:
            # Clusters that were made by an older headrace may have any label.
            raise JobRefused(f"The label's Spark is not known: {error}.") from None
        if self.takes_installed:
            return self._installed(release, label)
        return _of_release(release, label, _wanted_pythons(release, settings or {}))

    def _installed(self, release: Release, label: str | None) -> JobSpark:
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
    """Whether a property or a variable names the interpreter of a job."""
    return name in _PYTHON_SETTINGS


def python_settings(properties: Mapping[str, str], exported: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a job that name an interpreter: its Spark properties, and variables that it sets."""
    found = {name: value for name, value in exported.items() if is_python_setting(name)}
    for name, value in properties.items():
        # `spark.executorEnv.PYSPARK_PYTHON` sets a variable.
        for named in (name, name.rpartition(".")[2]):
            if is_python_setting(named):
                found[named] = value
    return found


def image_pythons(release: Release) -> list[Minor]:
    """Return the Pythons of a release's image, PySpark's default one first."""
    others = [python for python in release.pythons if python != release.python]
    return [minor_of(python) for python in (release.python, *others)]


def _wanted_pythons(release: Release, settings: Mapping[str, str]) -> list[Minor]:
    """Return the Pythons of the image, the one first that the job names, else its default."""
    image = image_pythons(release)
    for key in _PYTHON_SETTINGS:
        found = _IMAGE_PYTHON.fullmatch(settings.get(key, ""))
        named = (3, int(found[1])) if found and found[1] else None
        if named in image:
            return [named, *(p for p in image if p != named)]
    return image


def _of_release(release: Release, label: str | None, wanted: Sequence[Minor]) -> JobSpark:
    version = release.spark_version
    interpreter, python = python_for(version, wanted)
    environment = cached(version, python)
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
