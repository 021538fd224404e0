"""`headrace env`: prints what makes a shell's AWS clients reach the cloud of a folder."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from headrace.cli.options import data_dir_option, fail, usable
from headrace.cli.running_cloud import find_region, health, missing_cloud
from headrace.client.signing import Keys, keys_of


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
