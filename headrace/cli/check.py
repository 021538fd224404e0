"""`headrace check`: verify a data directory, offline."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.options import data_dir_option, fail
from headrace.cli.run import health


@click.command()
@data_dir_option
def check(data_dir: Path) -> None:
    """Verify every shard log: checksums, order, missing segments. Exit 1 when something is wrong."""
    from headrace.store.check import check as check_logs

    if not data_dir.is_dir():
        raise fail(f"There is no data directory {data_dir}.")
    if health(data_dir) is not None:
        raise fail(f"A cloud is running on {data_dir}; stop it first: headrace down")
    problems = list(check_logs(data_dir))
    for problem in problems:
        click.echo(str(problem))
    if problems:
        raise fail(f"{len(problems)} problem{'s' if len(problems) != 1 else ''} in {data_dir}.")
    click.echo(f"{data_dir} is sound")
