"""`headrace reset`: removes the data of a stopped cloud."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from headrace.cli.check import alone
from headrace.cli.options import data_dir_option, fail, usable
from headrace.cli.running_cloud import LOCK_FILE
from headrace.store.check import STATE_FILE


@click.command()
@data_dir_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(data_dir: Path, *, yes: bool) -> None:
    """Remove all data of a stopped cloud, after a question; the next cloud begins empty.

    The folder and its lock stay. A folder without a cloud's state, or with the current or your home folder in it, is
    refused. Nothing brings the data back.
    """
    usable(data_dir)
    if not (data_dir / STATE_FILE).is_file():
        raise fail(f"There is no data of a cloud in {data_dir}; name its folder with --data-dir.")
    resolved = data_dir.resolve()
    for protected in (Path.cwd(), Path.home()):
        if protected.resolve().is_relative_to(resolved):
            raise fail(
                f"{data_dir} has {protected} in it, which is not a cloud's data; remove it yourself."
            )
    with alone(data_dir):
        # The state last: a reset that was interrupted can be repeated.
        paths = sorted(
            data_dir.iterdir(), key=lambda path: (path.name.startswith(STATE_FILE), path)
        )
        paths = [path for path in paths if path.name != LOCK_FILE]
        if not yes:
            names = ", ".join(path.name for path in paths)
            click.confirm(f"Remove everything in {resolved} ({names})?", abort=True)
        for path in paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    click.echo(f"{data_dir} is empty")
