"""`headrace spark`: installs, lists and removes the Spark versions of EMR's release labels on this machine."""

from __future__ import annotations

import re

import click

from headrace.cli.options import fail
from headrace.core.extras import Minor, format_minor, minor_of
from headrace.spark_submit.class_archive import make_archive
from headrace.spark_submit.emr_releases import UnknownRelease, release_of, releases
from headrace.spark_submit.environments import (
    Environment,
    cache_folder,
    ensure,
    find_cached,
    python_for,
)
from headrace.spark_submit.environments import list_complete as made_environments
from headrace.spark_submit.environments import remove as remove_environment
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.making import build_command
from headrace.spark_submit.sparks import differences, image_pythons, java_for

_VERSION = re.compile(r"[234]\.\d+\.\d+")


@click.group()
def spark() -> None:
    """Install, list and remove the Spark versions of EMR's release labels; a job installs a missing version itself."""


@spark.command()
@click.argument("labels", nargs=-1, required=True, metavar="LABEL...")
def install(labels: tuple[str, ...]) -> None:
    """Install the Spark of release labels such as emr-7.13.0, or of versions such as 4.1.4."""
    for label in labels:
        version, wanted_python = _find_named(label)
        try:
            interpreter, python = python_for(version, wanted_python)
            environment = find_cached(version, python)
            java_home, java = java_for(minor_of(version))
            ensure(environment, interpreter, say=click.echo, mend=build_command(label))
            problem = make_archive(environment, java_home, java)
            if problem is not None:
                click.echo(
                    f"{label}: no archive of Spark's classes, so jobs start more slowly: {problem}"
                )
        except JobRefused as error:
            raise fail(str(error)) from None
        click.echo(f"{label}: {_describe(environment)}")
        if not _VERSION.fullmatch(label):
            for line in differences(release_of(label), environment, java):
                click.echo(f"  {line}")


@spark.command(name="list")
def list_() -> None:
    """List EMR's releases, and the installed Spark versions."""
    here = made_environments()
    for release in releases():
        installed = [e for e in here if e.spark == release.spark_version]
        # The default Python of this label comes first.
        installed.sort(key=lambda e: format_minor(e.python) != release.python)
        where = f"in {installed[0].folder}" if installed else "not made yet"
        click.echo(f"{release.label:22} Spark {release.spark:15} Python {release.python:5} {where}")
    known = {release.spark_version for release in releases()}
    for environment in here:
        if environment.spark not in known:
            click.echo(f"{'of no label':22} {_describe(environment)}")


@spark.command()
@click.argument("name", metavar="LABEL|VERSION")
def remove(name: str) -> None:
    """Remove the Spark of a label, or of a version, from this machine."""
    version, _ = _find_named(name)
    environments = [
        environment for environment in made_environments() if environment.spark == version
    ]
    if not environments:
        raise fail(f"There is no Spark {version} in {cache_folder()}; see: headrace spark list")
    for environment in environments:
        remove_environment(environment)
        click.echo(f"removed {environment.folder}")


def _find_named(name: str) -> tuple[str, list[Minor]]:
    """Return the Spark version of a label or version, and the Python versions of its image, the default first."""
    if _VERSION.fullmatch(name):
        return name, []
    try:
        release = release_of(name)
    except UnknownRelease as error:
        raise fail(f"{error}; see: headrace spark list") from None
    return release.spark_version, image_pythons(release)


def _describe(environment: Environment) -> str:
    return f"Spark {environment.spark} with Python {format_minor(environment.python)} in {environment.folder}"
