"""`headrace spark`: installs, lists and removes the Spark versions of EMR's release labels on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import click

from headrace.cli.options import fail, print_table
from headrace.core.extras import Minor, format_minor, minor_of
from headrace.spark_submit import JobRefused
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
from headrace.spark_submit.making import build_command
from headrace.spark_submit.sparks import differences, java_for

_VERSION = re.compile(r"[234]\.\d+\.\d+")


@click.group()
def spark() -> None:
    """Install, list and remove the Sparks of EMR's release labels. A job installs a missing version itself."""


@spark.command()
@click.argument("labels", nargs=-1, required=True, metavar="LABEL...")
def install(labels: tuple[str, ...]) -> None:
    """Install the Spark of release labels or versions. A LABEL is such as emr-7.13.0, or 4.1.4."""
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
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def list_(*, as_json: bool) -> None:
    """List EMR's releases, and the installed Spark versions."""
    rows = _list_releases()
    if as_json:
        click.echo(json.dumps(rows))
        return
    from rich.table import Table

    table = Table("label", "Spark", "Python", "folder", box=None)
    for row in rows:
        folder = row["folder"] or "not made yet"
        table.add_row(row["label"] or "of no label", row["spark"], row["python"], folder)
    print_table(table, 160)


def _list_releases() -> list[dict[str, str | None]]:
    """Return each label with its versions and the folder of its environment, and the environments of no label."""
    here = made_environments()
    rows: list[dict[str, str | None]] = []
    for release in releases():
        installed = [e for e in here if e.spark == release.spark_version]
        # The default Python of this label comes first.
        installed.sort(key=lambda e: format_minor(e.python) != release.python)
        folder = str(installed[0].folder) if installed else None
        rows.append(_row(release.label, release.spark, release.python, folder))
    known = {release.spark_version for release in releases()}
    rows += [
        _row(None, one.spark, format_minor(one.python), str(one.folder))
        for one in here
        if one.spark not in known
    ]
    return rows


def _row(label: str | None, spark: str, python: str, folder: str | None) -> dict[str, str | None]:
    return {"label": label, "spark": spark, "python": python, "folder": folder}


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


def _find_named(name: str) -> tuple[str, Sequence[Minor]]:
    """Return the Spark version of a label or version, and the Python versions of its image, the default first."""
    if _VERSION.fullmatch(name):
        return name, []
    try:
        release = release_of(name)
    except UnknownRelease as error:
        raise fail(f"{error}; see: headrace spark list") from None
    return release.spark_version, release.image_pythons


def _describe(environment: Environment) -> str:
    return f"Spark {environment.spark} with Python {format_minor(environment.python)} in {environment.folder}"
