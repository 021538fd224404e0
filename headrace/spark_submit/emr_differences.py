"""Describes how a job's Spark, jars, Python and Java differ from EMR's."""

from __future__ import annotations

from headrace.core.minor_versions import format_minor
from headrace.spark_submit.emr_releases import Release
from headrace.spark_submit.environments import Environment
from headrace.spark_submit.spark_versions import version_at


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
