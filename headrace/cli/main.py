"""`headrace`: the local cloud's own command. One clear sentence and a non-zero exit on bad input."""

from __future__ import annotations

import click

from headrace import __version__
from headrace.cli.check import check
from headrace.cli.faults import faults
from headrace.cli.history import history
from headrace.cli.replay import replay
from headrace.cli.run import down, status, up
from headrace.cli.streams import put, tail
from headrace.cli.submit import submit
from headrace.cli.trace import trace


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="headrace")
def main() -> None:
    """AWS streaming, whole, on a laptop."""


for command in (up, down, status, put, tail, replay, check, faults, trace, submit, history):
    main.add_command(command)


if __name__ == "__main__":
    main()
