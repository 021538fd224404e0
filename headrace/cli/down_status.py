"""`headrace down` and `headrace status`: stop a cloud, and show the running one.

`headrace env`: prints what makes a shell's AWS clients reach the cloud of a folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import textwrap
import threading
from pathlib import Path
from typing import Any

import click

from headrace.cli.lag import describe_pipeline, read_pipeline
from headrace.cli.options import data_dir_option, fail, usable
from headrace.cli.running_cloud import (
    LOOK_EVERY_S,
    STOP_WITHIN_S,
    find_region,
    health,
    held_data_dirs,
    missing_cloud,
    moto_phrase,
    print_losses,
    silent_cloud,
)
from headrace.client.signing import Keys, keys_of
from headrace.core.clock import SystemClock

_AS_THEY_ARE = ("endpoint_url", "status", "pid", "data_dir", "version")
# Columns for a list in a terminal too narrow to be used.
_NARROWEST = 20


@click.command()
@data_dir_option
def down(data_dir: Path) -> None:
    """Stop the cloud that runs on the data directory."""
    usable(data_dir)
    running = health(data_dir)
    if running is None:
        raise fail(silent_cloud(data_dir) or f"No headrace runs on {data_dir}.")
    pid = int(running["pid"])
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise fail(
            f"The cloud on {data_dir} (pid {pid}) belongs to another user; stop it as that user."
        ) from None
    clock, never = SystemClock(), threading.Event()
    deadline_s = clock.monotonic_s() + STOP_WITHIN_S
    while clock.monotonic_s() < deadline_s:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            click.echo("headrace is stopped")
            return
        clock.wait(never, LOOK_EVERY_S)
    raise fail(
        f"headrace (pid {pid}) did not stop within {STOP_WITHIN_S:.0f} s; end it: kill -9 {pid}"
    )


@click.command()
@data_dir_option
@click.option("--all", "of_all", is_flag=True, help="List every cloud of this user that runs here.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def status(data_dir: Path, *, of_all: bool, as_json: bool) -> None:
    """Show the cloud that runs on the data directory; exit 1 when none does."""
    if of_all:
        _print_all(as_json=as_json)
        return
    usable(data_dir)
    running = health(data_dir)
    if running is None:
        raise fail(missing_cloud(data_dir))
    # A cloud with --auth answers this only to requests with a key.
    running.setdefault("data_dir", str(data_dir.absolute()))
    pipeline: dict[str, Any]
    try:
        pipeline = read_pipeline(running["endpoint_url"])
    except click.ClickException as error:
        # The cloud itself is described all the same.
        pipeline = {"resources": [], "refused": [], "problem": error.message}
    if as_json:
        click.echo(json.dumps({**running, "pipeline": pipeline}))
        return
    fields = [(name.replace("_", " "), str(running[name])) for name in _AS_THEY_ARE]
    # An address or a path that is broken into lines cannot be copied; a list can be.
    lists = {
        "moto": moto_phrase(running),
        "services": ", ".join(running["services"]) + " (others: moto)",
        **describe_pipeline(pipeline),
    }
    label_width = max(map(len, [*_AS_THEY_ARE, *lists])) + 2
    width = max(shutil.get_terminal_size().columns - label_width, _NARROWEST)
    for name, text in lists.items():
        lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
        fields += zip([name] + [""] * len(lines), lines, strict=False)
    for label, text in fields:
        click.echo(f"{label:<{label_width}}{text}")
    print_losses(running)


def _print_all(*, as_json: bool) -> None:
    """Print a line for each cloud of this machine: address, process, state, data directory."""
    try:
        folders = held_data_dirs()
    except OSError as error:
        raise fail(
            "This system does not list file locks, by which clouds are found; ask for one: headrace status --data-dir"
            " FOLDER"
        ) from error
    pages: list[dict[str, Any]] = []
    for folder in sorted(folders):
        page = health(folder) or {"endpoint_url": None, "pid": None, "status": "does not answer"}
        pages.append({**page, "data_dir": str(folder)})
    if as_json:
        click.echo(json.dumps(pages))
    if not pages:
        raise fail("No headrace of this user runs here; start one: headrace up")
    for page in [] if as_json else pages:
        url, pid = page["endpoint_url"] or "-", page["pid"] or "-"
        click.echo(f"{url:<26} {pid:>8} {page['status']:<8} {page['data_dir']}")


@click.command()
@data_dir_option
def env(data_dir: Path) -> None:
    """Print the exports for the cloud of the data directory, for eval "$(headrace env)".

    They are the address, the region and the keys, for sh, bash and zsh. A profile and a session token of before are
    unset: some SDKs would prefer them. Without a running cloud nothing is printed, and the exit code is 1.
    """
    usable(data_dir)
    running = health(data_dir)
    if running is None:
        raise fail(missing_cloud(data_dir))
    # Without --auth any key is accepted.
    keys = keys_of(data_dir) or Keys("test", "test")
    region = find_region(data_dir)
    exports = {
        "AWS_ENDPOINT_URL": running["endpoint_url"],
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret,
    }
    # Semicolons: in eval $(headrace env), without quotes, the line ends are lost.
    for name, value in exports.items():
        click.echo(f"export {name}={shlex.quote(value)};")
    click.echo("unset AWS_SESSION_TOKEN AWS_PROFILE;")
